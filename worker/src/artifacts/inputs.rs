//! The input files of a job, wherever their content comes from: the job itself or the store.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use thermae_runner::frames::Input;
use thermae_schemas::{ErrorCode, Job, Outcome, TenantName};

use super::{Artifacts, Error};

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
pub(crate) async fn inputs(
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
            (None, Some(text), None) => match STANDARD.decode(text) {
                Ok(bytes) => bytes.into(),
                Err(e) => return Err(broken(format!("/base64: {e}"))),
            },
            (None, None, Some(reference)) => fetch(artifacts, tenant, at, reference, left).await?,
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

#[allow(clippy::result_large_err, reason = "made once per job that is turned away")]
async fn fetch(
    artifacts: &Artifacts,
    tenant: &TenantName,
    at: usize,
    reference: &str,
    room: u64,
) -> Result<Bytes, Outcome> {
    artifacts.get(tenant, reference, room).await.map_err(|error| match error {
        Error::TooLarge { .. } => too_large(room),
        error if error.is_missing() => {
            let message =
                format!("/files/{at}/ref names nothing in the store of tenant {tenant}. Nothing of the job ran.");
            Outcome::rejected(ErrorCode::UnknownRef, message)
        }
        error => {
            tracing::error!(%error, "a file of a job can't be read from the store");
            let message = format!("The fleet's store could not be read for /files/{at}. Nothing of the job ran.");
            Outcome::rejected(ErrorCode::StoreUnavailable, message)
        }
    })
}

fn too_large(room: u64) -> Outcome {
    let message =
        format!("The job's files do not fit into the {room} bytes that a sandbox of this pool has for files.");
    Outcome::rejected(ErrorCode::FilesTooLarge, message)
}
