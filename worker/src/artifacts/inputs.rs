//! What a job brings for its code, wherever the content comes from (the job itself or the store): files, and JSON
//! values under names of their own.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::value::RawValue;
use thermae_runner::frames::Input;
use thermae_schemas::json::measure_unique;
use thermae_schemas::{ArtifactId, ErrorCode, InputValue, Job, Outcome, TenantName};

use super::{Artifacts, Error};
use crate::context::Context;

/// Most bytes of a job's JSON values together. They reach the runner in one frame.
const LARGEST_VALUES: u64 = 16 << 20;

/// A file for the runner.
#[derive(Debug, Clone)]
pub(crate) struct InputFile {
    /// Path, size and mode of the file.
    pub input: Input,
    /// The file's content.
    pub bytes: Bytes,
}

/// Gathers the input files of a job, which may have at most `room` bytes together.
///
/// # Errors
/// The outcome of a job that never runs.
#[allow(clippy::result_large_err, reason = "made once per job that is turned away")]
pub(crate) async fn files(
    artifacts: &Artifacts,
    tenant: &TenantName,
    job: &Job,
    room: u64,
) -> Result<Vec<InputFile>, Outcome> {
    let mut left = room;
    let mut files = Vec::with_capacity(job.files.len());
    for (at, file) in job.files.iter().enumerate() {
        let broken = |what: String| Outcome::rejected(ErrorCode::SchemaViolation, format!("/files/{at}{what}."));
        file.check_path().map_err(|why| Outcome::rejected(ErrorCode::BadPath, format!("/files/{at}/path {why}.")))?;
        let bytes = match (&file.text, &file.base64, &file.reference) {
            (Some(text), None, None) => Bytes::copy_from_slice(text.as_bytes()),
            (None, Some(content), None) => content.clone().into(),
            (None, None, Some(reference)) => fetch(artifacts, tenant, &format!("/files/{at}"), reference, left)
                .await?
                .ok_or_else(|| too_large(room))?,
            _ => return Err(broken(" must have exactly one of text, base64 and ref".into())),
        };
        let size = bytes.len() as u64;
        left = left.checked_sub(size).ok_or_else(|| too_large(room))?;
        files.push(InputFile {
            input: Input { path: file.path.clone(), session: false, executable: file.executable, size },
            bytes,
        });
    }
    Ok(files)
}

/// Gathers the JSON values of a job, by name.
///
/// # Errors
/// The outcome of a job that never runs.
#[allow(clippy::result_large_err, reason = "made once per job that is turned away")]
pub(crate) async fn values(
    ctx: &Context,
    tenant: &TenantName,
    job: &Job,
) -> Result<BTreeMap<String, Box<RawValue>>, Outcome> {
    let mut left = LARGEST_VALUES;
    let mut values = BTreeMap::new();
    for (name, input) in &job.inputs {
        let too_large = || {
            let message = format!(
                "The job's inputs have more than {} MiB together. Give large data as files.",
                LARGEST_VALUES >> 20
            );
            Outcome::rejected(ErrorCode::FilesTooLarge, message)
        };
        let value = match input {
            InputValue::Value(value) => value.raw().to_owned(),
            InputValue::Ref(reference) => {
                let place = format!("/inputs/{name}");
                let bytes = fetch(&ctx.artifacts, tenant, &place, reference, left).await?.ok_or_else(too_large)?;
                let read = ctx.heavy.scan(bytes.len(), move || json(bytes)).await;
                read.map_err(|why| {
                    Outcome::rejected(ErrorCode::SchemaViolation, format!("{place}/ref names no JSON: {why}."))
                })?
            }
        };
        left = left.checked_sub(value.get().len() as u64).ok_or_else(too_large)?;
        values.insert(name.clone(), value);
    }
    Ok(values)
}

fn json(bytes: Bytes) -> Result<Box<RawValue>, String> {
    measure_unique(&bytes, usize::MAX).map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes.into()).map_err(|error| error.to_string())?;
    RawValue::from_string(text).map_err(|error| error.to_string())
}

/// Fetches what `reference`, the field `ref` at this place in the job, names in the store. `None` if it has more than
/// `room` bytes.
#[allow(clippy::result_large_err, reason = "made once per job that is turned away")]
async fn fetch(
    artifacts: &Artifacts,
    tenant: &TenantName,
    place: &str,
    reference: &ArtifactId,
    room: u64,
) -> Result<Option<Bytes>, Outcome> {
    match artifacts.get(tenant, reference.as_str(), room).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(Error::TooLarge { .. }) => Ok(None),
        Err(error) if error.is_missing() => {
            let message =
                format!("{place}/ref names no artifact of tenant {tenant} that the store has. Nothing of the job ran.");
            Err(Outcome::rejected(ErrorCode::UnknownRef, message))
        }
        Err(error) => {
            tracing::error!(%error, "the store can't be read for a job");
            let message = format!("The fleet's store could not be read for {place}. Nothing of the job ran.");
            Err(Outcome::rejected(ErrorCode::StoreUnavailable, message))
        }
    }
}

fn too_large(room: u64) -> Outcome {
    let message =
        format!("The job's files do not fit into the {room} bytes that a sandbox of this pool has for files.");
    Outcome::rejected(ErrorCode::FilesTooLarge, message)
}
