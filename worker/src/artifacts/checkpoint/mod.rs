//! Checkpoints of sessions in the store: everything that a session has in its sandbox, for a session that comes later.
//!
//! ```text
//! <tenant>/checkpoints/<sha256 of the session's name>/<life>/manifest      names the chunks; written last
//!                                                           /<uuid>        a chunk: frames of parts, one after the other
//! ```
//!
//! A session that is made gets a **life**, a number above those of all sessions of its name before it. The manifest of
//! the highest life counts. So a worker that wrongly believes to hold a session still can overwrite nothing of the
//! session that came after it. A chunk is never changed and its name is never used again: whoever has a manifest finds
//! the chunks that it names, or none, but never others.

mod pack;
mod sweep;
#[cfg(test)]
mod tests;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thermae_schemas::{SessionName, TenantName};

use super::{Artifacts, Error, STORE_TIMEOUT, gather};
pub(crate) use pack::{Broken, Packer, frames};
pub(super) use sweep::sweep;

/// The largest manifest, in bytes. A checkpoint of 4 GiB in the smallest chunks has less.
const LARGEST_MANIFEST: u64 = 16 << 20;
/// Name of the manifest among the objects of a life.
const MANIFEST: &str = "manifest";
/// Name of the folder in each tenant's part.
const FOLDER: &str = "checkpoints";
/// Version of the manifests that this release writes.
const FORMAT: u32 = 1;

/// What a checkpoint consists of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    format: u32,
    /// Name of the session.
    session: SessionName,
    /// When it expires, in seconds since 1970.
    expires_at: u64,
    /// Number of files and links.
    pub files: u64,
    /// Bytes of all files together.
    pub bytes: u64,
    /// Number of things that could not be kept.
    pub left_out: u64,
    /// The chunks, in their order.
    pub chunks: Vec<Chunk>,
}

/// A piece of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Chunk {
    /// Its name in the store.
    pub id: String,
    /// SHA-256 of its content.
    pub sha256: String,
    /// Its size in bytes.
    pub size: u64,
}

/// A checkpoint that a session can begin with.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    life: u64,
    pub manifest: Manifest,
}

impl Manifest {
    pub(crate) fn new(session: SessionName, expires_at: SystemTime) -> Self {
        let expires_at = seconds(expires_at);
        Self { format: FORMAT, session, expires_at, files: 0, bytes: 0, left_out: 0, chunks: Vec::new() }
    }

    /// When it expires.
    pub(crate) fn expires_at(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(self.expires_at)
    }

    /// Whether it can still be used at this time.
    pub(crate) fn lasts(&self, now: SystemTime) -> bool {
        seconds(now) < self.expires_at
    }
}

fn seconds(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Any text can be the name of a session, but not any text can be a path.
fn folder(session: &SessionName) -> String {
    format!("{FOLDER}/{}", hex::encode(Sha256::digest(session.as_str())))
}

/// All digits, so that the order of the names is that of the lives.
fn key(session: &SessionName, life: u64, name: &str) -> String {
    format!("{}/{life:020}/{name}", folder(session))
}

fn life_of(name: &str) -> Option<u64> {
    (name.len() == 20 && name.bytes().all(|c| c.is_ascii_digit())).then(|| name.parse().ok()).flatten()
}

impl Artifacts {
    /// The lives of a session that the store has something of, the highest first.
    ///
    /// # Errors
    /// The store fails.
    pub(crate) async fn lives(&self, tenant: &TenantName, session: &SessionName) -> Result<Vec<u64>, Error> {
        let path = self.path(tenant, &folder(session))?;
        let found = tokio::time::timeout(STORE_TIMEOUT, self.0.store.list_with_delimiter(Some(&path)));
        let found = found.await.map_err(|_| Error::Late)??;
        let mut lives: Vec<_> = found.common_prefixes.iter().filter_map(|p| life_of(p.filename()?)).collect();
        lives.sort_unstable_by(|a, b| b.cmp(a));
        Ok(lives)
    }

    /// The checkpoint of a session among these lives. `None` if there is none, or if it has expired.
    ///
    /// # Errors
    /// The store fails, or has a manifest that this release can't read.
    pub(crate) async fn checkpoint(
        &self,
        tenant: &TenantName,
        session: &SessionName,
        lives: &[u64],
    ) -> Result<Option<Found>, Error> {
        for &life in lives {
            let manifest = match self.get(tenant, &key(session, life, MANIFEST), LARGEST_MANIFEST).await {
                // Its first checkpoint was not complete.
                Err(error) if error.is_missing() => continue,
                read => read?,
            };
            let manifest: Manifest = serde_json::from_slice(&manifest).map_err(|_| Error::Manifest)?;
            if manifest.format != FORMAT || manifest.session != *session {
                return Err(Error::Manifest);
            }
            return Ok(manifest.lasts(SystemTime::now()).then_some(Found { life, manifest }));
        }
        Ok(None)
    }

    /// The chunks of a checkpoint, in their order.
    ///
    /// # Errors
    /// The store fails, or a chunk is not what it was.
    pub(crate) async fn chunks(&self, tenant: &TenantName, found: &Found) -> Result<Vec<Bytes>, Error> {
        let mut chunks = Vec::with_capacity(found.manifest.chunks.len());
        for chunk in &found.manifest.chunks {
            let bytes = self.get(tenant, &key(&found.manifest.session, found.life, &chunk.id), chunk.size).await?;
            if gather::digest(bytes.clone()).await != chunk.sha256 {
                return Err(Error::Damaged(chunk.id.clone()));
            }
            chunks.push(bytes);
        }
        Ok(chunks)
    }

    /// Stores a chunk under a name of its own.
    ///
    /// # Errors
    /// The store fails.
    pub(crate) async fn put_chunk(
        &self,
        tenant: &TenantName,
        session: &SessionName,
        life: u64,
        bytes: Bytes,
        sha256: String,
    ) -> Result<Chunk, Error> {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let size = bytes.len() as u64;
        self.put(tenant, &key(session, life, &id), bytes).await?;
        Ok(Chunk { id, sha256, size })
    }

    /// Stores the manifest of a life. From then on, this checkpoint counts. The store replaces an earlier manifest in
    /// one step.
    ///
    /// # Errors
    /// The store fails.
    pub(crate) async fn put_manifest(&self, tenant: &TenantName, life: u64, manifest: &Manifest) -> Result<(), Error> {
        let bytes = serde_json::to_vec(manifest).map_err(|_| Error::Manifest)?;
        self.put(tenant, &key(&manifest.session, life, MANIFEST), bytes.into()).await
    }

    /// Removes chunks that no manifest names any more.
    pub(crate) async fn remove_chunks(&self, tenant: &TenantName, session: &SessionName, life: u64, ids: &[String]) {
        for id in ids {
            if let Err(error) = self.remove(tenant, &key(session, life, id)).await {
                tracing::warn!(%error, %session, "a chunk of an old checkpoint can't be removed; a sweep removes it");
                return;
            }
        }
    }

    /// Removes what the store has of these lives of a session: first the manifests, so that none names what is gone.
    ///
    /// # Errors
    /// The store fails. A sweep removes the rest later, but manifests may be left, which count.
    pub(crate) async fn forget_lives(
        &self,
        tenant: &TenantName,
        session: &SessionName,
        lives: &[u64],
    ) -> Result<(), Error> {
        for life in lives {
            self.remove(tenant, &key(session, *life, MANIFEST)).await?;
        }
        for life in lives {
            let path = self.path(tenant, &format!("{}/{life:020}", folder(session)))?;
            let mut objects = self.0.store.list(Some(&path));
            loop {
                let next = tokio::time::timeout(STORE_TIMEOUT, objects.try_next()).await.map_err(|_| Error::Late)??;
                let Some(object) = next else { break };
                let name = object.location.filename().unwrap_or_default().to_owned();
                self.remove(tenant, &key(session, *life, &name)).await?;
            }
            self.tidy(Some(&path.join("x")));
        }
        Ok(())
    }

    /// Removes the folders of a life and of its session if nothing is left in them. Only a store that is a folder has
    /// any. `object` is the path of an object of this life.
    fn tidy(&self, object: Option<&Path>) {
        let path = object.and_then(|object| self.0.local.as_ref()?.path_to_filesystem(object).ok());
        for folder in path.iter().flat_map(|path| path.ancestors().skip(1).take(2)) {
            let _ = std::fs::remove_dir(folder);
        }
    }
}
