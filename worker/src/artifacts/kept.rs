//! Files of sessions that move: what a session had in `/session` when its worker drained, for the next session of this
//! name.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thermae_runner::frames::Input;
use thermae_schemas::{SessionName, TenantName};

use super::{Artifacts, Error, InputFile};

/// How long the files are kept: as long as the registry remembers a session that is gone.
pub(super) const AT_MOST: Duration = thermae_backplane::registry::SESSION_TTL;

/// The largest list of a session's files, in bytes.
const LARGEST_LIST: u64 = 16 << 20;

/// The list of the files that a session had.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// When the files were kept, in seconds since 1970.
    at: u64,
    files: Vec<KeptFile>,
}

/// One file of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptFile {
    /// Path below `/session`.
    pub path: String,
    /// Key of the content in the tenant's part of the store.
    pub id: String,
    /// Whether the file's owner may run it.
    pub executable: bool,
}

impl Kept {
    /// A list of these files, kept now.
    pub(crate) fn now(files: Vec<KeptFile>) -> Self {
        Self { at: seconds(), files }
    }
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Any text can be the name of a session, but not any text can be a path.
fn key(session: &SessionName) -> String {
    format!("sessions/{}", hex::encode(Sha256::digest(session.as_str())))
}

impl Artifacts {
    /// Stores the list of what a session had. The files themselves are stored already.
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

    /// The files that an earlier session of this name had, at most `room` bytes together. Empty if none were kept, or
    /// if that was too long ago.
    ///
    /// # Errors
    /// The store fails, or the files have more bytes.
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

    /// Forgets the files that an earlier session of this name had.
    pub(crate) async fn forget_session(&self, tenant: &TenantName, session: &SessionName) {
        if let Err(error) = self.remove(tenant, &key(session)).await {
            tracing::warn!(%error, %session, "a session's kept files can't be removed; a later sweep removes them");
        }
    }
}
