//! The files of sessions that move: what one had in `/session` when its worker drained, for the session that comes after it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thermae_runner::frames::Input;
use thermae_schemas::{SessionName, TenantName};

use super::{Artifacts, Error, InputFile};

/// How long they are kept: as long as the registry remembers a session that is gone.
pub(super) const AT_MOST: Duration = thermae_backplane::registry::SESSION_TTL;

/// The largest list of a session's files, in bytes.
const LARGEST_LIST: u64 = 16 << 20;

/// What a session had.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Seconds since 1970 when it was kept.
    at: u64,
    files: Vec<KeptFile>,
}

/// One file of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptFile {
    /// Below `/session`.
    pub path: String,
    /// Its content in the tenant's part of the store.
    pub id: String,
    /// Whether its owner may run it.
    pub executable: bool,
}

impl Kept {
    /// These files, as of now.
    pub(crate) fn now(files: Vec<KeptFile>) -> Self {
        Self { at: seconds(), files }
    }
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Any text can be a session's name, not any a path.
fn key(session: &SessionName) -> String {
    format!("sessions/{}", hex::encode(Sha256::digest(session.as_str())))
}

impl Artifacts {
    /// Stores what a session had; its files are stored already.
    ///
    /// # Errors
    /// The store fails.
    pub(crate) async fn keep_session(
        &self,
        tenant: &TenantName,
        session: &SessionName,
        kept: &Kept,
    ) -> Result<(), Error> {
        let list = serde_json::to_vec(kept).unwrap_or_default();
        self.put(tenant, &key(session), list.into()).await
    }

    /// What a session of that name had, if its worker has kept it and not too long ago; no more than `room` bytes of files.
    ///
    /// # Errors
    /// The store fails, or there are more bytes.
    pub(crate) async fn kept_session(
        &self,
        tenant: &TenantName,
        session: &SessionName,
        room: u64,
    ) -> Result<Vec<InputFile>, Error> {
        let list = match self.get(tenant, &key(session), LARGEST_LIST).await {
            Err(error) if error.is_missing() => return Ok(Vec::new()),
            list => list?,
        };
        let kept: Kept = serde_json::from_slice(&list).unwrap_or_default();
        if kept.at.saturating_add(AT_MOST.as_secs()) < seconds() {
            return Ok(Vec::new());
        }
        let (mut files, mut left) = (Vec::with_capacity(kept.files.len()), room);
        for file in kept.files {
            let bytes = self.get(tenant, &file.id, left).await?;
            left -= bytes.len() as u64;
            let size = bytes.len() as u64;
            let input = Input { path: file.path, session: true, executable: file.executable, size };
            files.push(InputFile { input, bytes });
        }
        Ok(files)
    }

    /// Forgets what a session of that name had.
    pub(crate) async fn forget_session(&self, tenant: &TenantName, session: &SessionName) {
        if let Err(error) = self.remove(tenant, &key(session)).await {
            tracing::warn!(%error, %session, "what a session had kept can't be removed; it is too old in a while");
        }
    }
}
