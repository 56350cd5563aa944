//! Artifacts of jobs: fetches them from the fleet, checks them, and writes them below a folder of the user's.

mod folder;
mod names;

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use thermae_fleet::Fleet;
use thermae_schemas::{Artifact, Job, LeftOut, LeftOutWhy, Outcome};

use crate::failure::Failure;
use crate::style;
use folder::Folder;

/// How long fetching one artifact may take.
const FETCH_TIMEOUT: Duration = Duration::from_secs(300);

/// Makes a real fleet put small artifacts into the outcome, which saves [`save`] a request for each.
pub(crate) fn ask(fleet: &Fleet, job: &mut Job) {
    job.artifacts.inline |= !fleet.is_embedded();
}

/// Writes an outcome's artifacts below `into`, which is created if needed, and removes their content from the outcome.
/// Gives the number of files written. `/workspace/artifacts/a/b` becomes `a/b`, and `/session/artifacts/a` becomes
/// `session/a`.
///
/// Existing files are never replaced. Artifacts whose names other programs execute automatically ([`names`]) are not
/// written, and are added to the artifacts that the outcome left out. `run_from` lists folders that such programs run
/// from.
///
/// # Errors
/// An artifact can't be fetched or written, or a different file has its name. All other artifacts are written.
pub(crate) async fn save(
    fleet: &Fleet,
    outcome: &mut Outcome,
    into: &Path,
    run_from: &[PathBuf],
) -> Result<usize, Failure> {
    if outcome.artifacts.is_empty() {
        return Ok(0);
    }
    let unwritten = |what: &Path, error: &dyn std::fmt::Display| {
        Failure::usage("artifacts_not_written", format!("can't write {}: {error}", what.display()))
            .help("--artifacts needs a writable folder with enough space and without files of these names")
    };
    let folder = Folder::open(into, run_from).map_err(|error| unwritten(into, &error))?;
    let (mut written, mut failed) = (0, None);
    for artifact in &mut outcome.artifacts {
        let path = place(artifact);
        if let Some(message) = names::executed(&path, folder.runs(&path)) {
            artifact.base64 = None;
            outcome.artifacts_left_out.push(LeftOut {
                path: artifact.path.clone(),
                path_base64: artifact.path_base64.clone(),
                size: Some(artifact.size),
                why: LeftOutWhy::Unknown,
                message: message.to_owned(),
            });
            continue;
        }
        let bytes = match fetch(fleet, artifact).await {
            Ok(bytes) => bytes,
            Err(error) => {
                failed.get_or_insert(error);
                continue;
            }
        };
        artifact.base64 = None;
        match folder.write(&path, &bytes) {
            Ok(()) => written += 1,
            Err(error) => {
                failed.get_or_insert_with(|| unwritten(&into.join(Path::new(os(&path))), &error));
            }
        }
    }
    failed.map_or(Ok(written), Err)
}

/// Creates a new folder for one job of a batch. If an earlier run has left a folder with this name, a number is
/// appended.
///
/// # Errors
/// The folder can't be created.
pub(crate) fn new_folder_of(into: &Path, id: &str) -> Result<PathBuf, Failure> {
    let failed = |path: &Path, error: std::io::Error| {
        Failure::usage("artifacts_not_written", format!("can't make the folder {}: {error}", path.display()))
    };
    std::fs::create_dir_all(into).map_err(|error| failed(into, error))?;
    let first = folder_of(into, id);
    let mut path = first.clone();
    for number in 2.. {
        match std::fs::create_dir(&path) {
            Ok(()) => break,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                let mut name = first.clone().into_os_string();
                name.push(format!("~{number}"));
                path = name.into();
            }
            Err(error) => return Err(failed(&path, error)),
        }
    }
    if path != first {
        style::note(&format!("{} already exists: the files of this run are in {}", first.display(), path.display()));
    }
    Ok(path)
}

/// Path of the folder for a job: its id, with unsafe characters as `%XX`. Long ids are cut, and end with a hash.
fn folder_of(into: &Path, id: &str) -> PathBuf {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let encode = |(at, byte): (usize, u8)| match byte {
        b'.' if at == 0 => "%2E".to_owned(),
        byte if plain(byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    let mut name: String = id.bytes().enumerate().map(encode).collect();
    if name.len() > 200 {
        name.truncate(180);
        name.push_str(&hex::encode(Sha256::digest(id.as_bytes()))[..16]);
    }
    into.join(name)
}

/// The artifact's path below the folder, byte for byte.
fn place(artifact: &Artifact) -> Vec<u8> {
    let exact = artifact.path_base64.as_ref().and_then(|text| STANDARD.decode(text).ok());
    let path = exact.unwrap_or_else(|| artifact.path.clone().into_bytes());
    if let Some(rest) = path.strip_prefix(b"/workspace/artifacts/") {
        return rest.to_vec();
    }
    match path.strip_prefix(b"/session/artifacts/") {
        Some(rest) => [b"session/", rest].concat(),
        None => path.strip_prefix(b"/").unwrap_or(&path).to_vec(),
    }
}

fn os(path: &[u8]) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(path)
}

/// An artifact's content: from the outcome, from the embedded fleet's store, or from its URL.
async fn fetch(fleet: &Fleet, artifact: &Artifact) -> Result<Vec<u8>, Failure> {
    let failed = |why: String| {
        Failure::fleet("artifact_not_fetched", format!("can't fetch {}: {why}", artifact.path)).help(
            "its URL is in the outcome (--json); url_base in the worker's configuration says where clients reach it",
        )
    };
    let bytes = match (&artifact.base64, fleet.store()) {
        (Some(text), _) => STANDARD.decode(text).map_err(|error| failed(error.to_string()))?,
        (None, Some(store)) => {
            store.get(fleet.client().tenant(), &artifact.id, u64::MAX).await.map_err(|e| failed(e.to_string()))?.into()
        }
        (None, None) => {
            let url = artifact.url.as_deref().ok_or_else(|| failed("the fleet gave no URL for it".to_owned()))?;
            download(url).await.map_err(|error| failed(crate::failure::chain(&error.without_url())))?
        }
    };
    if hex::encode(Sha256::digest(&bytes)) != artifact.sha256 {
        return Err(failed("what came does not match the outcome's SHA-256".to_owned()));
    }
    Ok(bytes)
}

async fn download(url: &str) -> Result<Vec<u8>, reqwest::Error> {
    // This fails if a provider is already installed, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().timeout(FETCH_TIMEOUT).build()?;
    Ok(client.get(url).send().await?.error_for_status()?.bytes().await?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_has_a_folder_of_its_own_below_ours() {
        let name = |id: &str| folder_of(Path::new("out"), id).strip_prefix("out").unwrap().display().to_string();
        assert_eq!(name("HumanEval/0"), "HumanEval%2F0");
        assert_eq!((name(".."), name(".x"), name("a b.c")), ("%2E.".into(), "%2Ex".into(), "a%20b.c".into()));
        let long = |last: &str| name(&format!("{}{last}", "x".repeat(300)));
        assert!(long("a") != long("b") && long("a").len() < 255);
    }
}
