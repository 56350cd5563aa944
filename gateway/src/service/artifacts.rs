//! Artifacts of runs.

use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::stream::BoxStream;
use thermae_schemas::{Artifact, JobId};

use super::Service;
use crate::problem::Problem;

/// Where an artifact's content is.
pub(crate) enum Content {
    /// In the fleet's store, of which these are the pieces.
    Pieces(BoxStream<'static, Result<Bytes, thermae_worker::ArtifactsError>>),
    /// In the outcome.
    Inline(Bytes),
    /// At this URL.
    At(String),
}

/// The path of an artifact that a request names: below `/workspace/artifacts`, or from the root if it was asked for so.
/// Each artifact has one name of each kind at most, so no two are mistaken for each other.
fn path(name: &str, from_root: bool) -> String {
    format!("{}/{name}", if from_root { "" } else { "/workspace/artifacts" })
}

/// Finds an artifact of a run that has ended, by the name that a request gives it.
pub(crate) fn artifact(service: &Service, id: &JobId, name: &str, from_root: bool) -> Result<Artifact, Problem> {
    let run = service.run(id)?;
    if !run.has_ended() {
        return Err(Problem::new("not_ended", "the run has not ended yet"));
    }
    let path = path(name, from_root);
    let found = run.artifacts()?.into_iter().find(|artifact| artifact.path == path);
    found.ok_or_else(|| Problem::new("unknown_artifact", format!("the run has left no artifact {name:?}")))
}

/// These bytes of an artifact, or where to get it.
pub(crate) async fn content(service: &Service, artifact: &Artifact, part: Range<u64>) -> Result<Content, Problem> {
    if let Some(store) = service.fleet.store() {
        return Ok(Content::Pieces(store.part(service.client.tenant(), &artifact.id, part).await?));
    }
    if let Some(bytes) = artifact.base64.as_ref().and_then(|text| STANDARD.decode(text).ok()) {
        let (begin, end) = (usize::try_from(part.start), usize::try_from(part.end));
        let bytes = Bytes::from(bytes);
        if let (Ok(begin), Ok(end)) = (begin, end)
            && end <= bytes.len()
            && begin <= end
        {
            return Ok(Content::Inline(bytes.slice(begin..end)));
        }
    }
    match &artifact.url {
        Some(url) => Ok(Content::At(url.clone())),
        None => Err(Problem::new("no_store", "nothing serves this fleet's artifacts")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_artifact_is_found_by_its_path_below_its_directory() {
        assert_eq!(path("a/b.csv", false), "/workspace/artifacts/a/b.csv");
        assert_eq!(path("session/artifacts/a", true), "/session/artifacts/a");
        assert_ne!(path("session/artifacts/a", false), path("session/artifacts/a", true));
    }
}
