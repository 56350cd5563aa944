//! Checkpoints: a session's files outlive it. They are stored when its worker drains, when it makes room for another
//! session, when it is killed because its code does not end when it is interrupted and, if the session asks for it,
//! after each of its jobs, before the job's outcome is recorded. The next session of its name begins with them, or
//! another one of the same tenant that names it. What a session has in memory is never kept; see [`super::Sessions`].
//!
//! Two workers may believe for a moment that they hold one session. The one that made it later has the higher life, and
//! only the highest life's checkpoint counts. Besides, a checkpoint after a job counts only if the job's lease holds
//! when everything but the manifest is stored. What is left is a worker whose lease ends while the store takes the
//! manifest: if the next session of this name asks for no checkpoints, one that comes after it may find these files.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use thermae_backplane::registry::Holder;
use thermae_runner::frames::{Checkpoint, End, Exit, Kind};
use thermae_schemas::{CheckpointWhen, ErrorCode, ErrorInfo, Outcome, SessionName, SessionState, TenantName};
use tokio::task::JoinSet;

use super::{Session, Sessions};
use crate::artifacts::checkpoint::{Broken, Chunk, Found, Manifest, Packer};
use crate::artifacts::{self, Artifacts};
use crate::attempt::Prepared;
use crate::conn::{self, Conn, exit_of};
use crate::context::Context;
use crate::running::Entry;
use crate::work::Work;

/// How long one checkpoint may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Checkpoints that a worker takes at once.
pub(super) const AT_ONCE: usize = 16;
/// Chunks of one checkpoint that are being stored at once. Each is in memory meanwhile.
const STORING: usize = 2;

/// What a session knows about its checkpoints.
#[derive(Debug)]
pub(super) struct Saved {
    life: u64,
    after_job: bool,
    /// Whether the job under way asks for a checkpoint, for itself alone.
    after_this: bool,
    ttl: Duration,
    /// The last checkpoint of this life.
    last: Option<Manifest>,
    /// Chunks of the checkpoint before the last one. A session that begins with it may still read them.
    stale: Vec<String>,
    /// The lives of earlier sessions of this name that the store has something of.
    older: Vec<u64>,
}

/// Why there is no checkpoint.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Store(#[from] artifacts::Error),
    #[error(transparent)]
    Conn(#[from] conn::Error),
    #[error("the runner broke the rules of checkpoints")]
    Broken(#[from] Broken),
    #[error("the runner's last word can't be read")]
    Unreadable(#[from] serde_json::Error),
    #[error("a chunk was not stored")]
    Task(#[from] tokio::task::JoinError),
    #[error("{0}")]
    TooLarge(String),
    #[error("{0}")]
    Walk(String),
    #[error("the session ended")]
    Ended,
    #[error("it took more than {} s", TIMEOUT.as_secs())]
    Late,
    #[error("the worker stops")]
    Stopped,
    #[error("this worker does not hold the session any more")]
    NotHeld,
}

impl Failed {
    fn info(&self) -> ErrorInfo {
        let code = match self {
            Self::TooLarge(_) => ErrorCode::CheckpointTooLarge,
            _ => ErrorCode::CheckpointFailed,
        };
        // The store's own words may name what is none of the client's business.
        let why = match self {
            Self::Store(artifacts::Error::Late) => "the fleet's store did not answer in time".to_owned(),
            Self::Store(_) | Self::Task(_) => "the fleet's store did not accept it".to_owned(),
            other => other.to_string(),
        };
        ErrorInfo::new(code, format!("There is no checkpoint of the session after this job: {why}."))
    }
}

impl Saved {
    fn new(ctx: &Context, older: Vec<u64>) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64;
        let life = older.iter().map(|life| life.saturating_add(1)).fold(now, u64::max);
        let ttl = ctx.options.artifacts.checkpoint_ttl.0;
        Self { life, after_job: false, after_this: false, ttl, last: None, stale: Vec::new(), older }
    }

    /// Takes over what a job asks for. `fresh` is whether the job makes the session.
    pub(super) fn heed(&mut self, work: &Work, fresh: bool) {
        let Some(wish) = &work.job.session else { return };
        self.after_job |= wish.checkpoint == Some(CheckpointWhen::AfterJob);
        // A job that was to restore a checkpoint must not replace it with the files of a session that was there.
        let in_vain = wish.restore.is_some() && !fresh;
        self.after_this = wish.checkpoint == Some(CheckpointWhen::Once) && !in_vain;
        if let Some(ms) = wish.checkpoint_ttl_ms {
            self.ttl = Duration::from_millis(ms);
        }
    }
}

/// Finds out what a session that is about to be made begins with, and puts it before the job's own files. Returns also
/// the number of files and links.
///
/// # Errors
/// The outcome of a job that never runs.
#[allow(clippy::result_large_err, reason = "made once per job that is turned away")]
pub(super) async fn find(
    ctx: &Context,
    work: &Work,
    session: &Session,
    prepared: &mut Prepared,
) -> Result<(Saved, u64), Outcome> {
    if !ctx.artifacts.is_lasting() {
        return Ok((Saved::new(ctx, Vec::new()), 0));
    }
    let (tenant, name) = &session.key;
    let wish = work.job.session.as_ref();
    let wants = wish.is_some_and(|s| s.checkpoint.is_some() || s.restore.is_some());
    let older = match ctx.artifacts.lives(tenant, name).await {
        Ok(older) => older,
        Err(error) if wants => return Err(unreadable(name, &error)),
        Err(error) => {
            tracing::warn!(%error, session = %name, "whether the session has a checkpoint can't be read");
            return Ok((Saved::new(ctx, Vec::new()), 0));
        }
    };
    let own: u64 = prepared.files.iter().map(|f| f.input.size).sum();
    let room = session.pool.options().disk.0.saturating_sub(own);
    let most = session.pool.options().disk.0;
    let mut restored = None;
    if !older.is_empty() && wish.is_none_or(|s| !s.reset) {
        restored = read(&ctx.artifacts, tenant, name, room, most).await?;
    }
    if restored.is_none()
        && let Some(other) = wish.and_then(|s| s.restore.as_ref())
    {
        restored = read(&ctx.artifacts, tenant, other, room, most).await?;
        if restored.is_none() {
            let message = format!("There is no checkpoint of a session {other:?}, or it has expired. Nothing ran.");
            return Err(Outcome::rejected(ErrorCode::CheckpointMissing, message));
        }
    }
    let saved = Saved::new(ctx, older);
    let Some((found, chunks)) = restored else { return Ok((saved, 0)) };
    prepared.checkpoint = chunks;
    Ok((saved, found.manifest.files))
}

/// Reads the checkpoint of a session, if there is one.
#[allow(clippy::result_large_err, reason = "made once per job that is turned away")]
async fn read(
    artifacts: &Artifacts,
    tenant: &TenantName,
    name: &SessionName,
    room: u64,
    most: u64,
) -> Result<Option<(Found, Vec<bytes::Bytes>)>, Outcome> {
    let mut again = true;
    loop {
        let attempt = async {
            let lives = artifacts.lives(tenant, name).await?;
            let Some(found) = artifacts.checkpoint(tenant, name, &lives).await? else { return Ok(None) };
            if found.manifest.bytes > room {
                return Err(artifacts::Error::TooLarge { size: found.manifest.bytes, room });
            }
            let chunks = artifacts.chunks(tenant, &found).await?;
            Ok(Some((found, chunks)))
        };
        match attempt.await {
            Ok(found) => return Ok(found),
            Err(artifacts::Error::TooLarge { size, room }) if size > room => {
                let message = format!(
                    "The checkpoint of session {name:?} has {size} bytes, and the {most} bytes that a sandbox of this \
                     pool has for files leave room for {room}. Nothing ran."
                );
                return Err(Outcome::rejected(ErrorCode::CheckpointTooLarge, message));
            }
            // Its session lives and takes a new checkpoint: the next manifest names other chunks.
            Err(error) if error.is_missing() && std::mem::take(&mut again) => {}
            Err(error) => return Err(unreadable(name, &error)),
        }
    }
}

fn unreadable(name: &SessionName, error: &artifacts::Error) -> Outcome {
    tracing::error!(%error, session = %name, "a session's checkpoint can't be read");
    let message = format!(
        "The checkpoint of session {name:?} could not be read from the fleet's store. Nothing ran. To begin without it, \
         reset the session."
    );
    Outcome::rejected(ErrorCode::StoreUnavailable, message)
}

impl Sessions {
    /// Forgets the checkpoints of earlier sessions of this name.
    pub(super) async fn forget_older(&self, session: &Session, saved: &mut Saved) {
        let (older, (tenant, name)) = (std::mem::take(&mut saved.older), &session.key);
        if let Err(error) = self.ctx.artifacts.forget_lives(tenant, name, &older).await {
            tracing::error!(%error, session = %name, "the old checkpoint of a session can't be removed");
        }
    }

    /// What a job that made its session, or found it, does about checkpoints once it has ended. `killed` is whether the
    /// session was killed with the job's code and its files are still there: they are kept if they can be.
    pub(super) async fn after_job(
        &self,
        session: &Session,
        conn: &Conn,
        saved: &mut Saved,
        entry: &Entry,
        killed: bool,
        state: &mut SessionState,
    ) {
        let last = killed && self.ctx.artifacts.is_lasting();
        if !saved.after_job && !saved.after_this && !last {
            if state.fresh && state.alive && !saved.older.is_empty() {
                // The files are the session's own again.
                self.forget_older(session, saved).await;
            }
            return;
        }
        let may = async || entry.check().map_err(|_| Failed::NotHeld);
        let taken = if state.alive || last { self.take(session, conn, saved, may).await } else { Err(Failed::Ended) };
        match taken {
            Ok(manifest) => {
                state.checkpointed = true;
                state.checkpoint_left_out = manifest.left_out;
                let expires = humantime::format_rfc3339_seconds(manifest.expires_at());
                state.checkpoint_expires_at = Some(expires.to_string());
            }
            Err(error) => {
                tracing::warn!(%error, session = %session.key.1, "a session has no checkpoint after its job");
                state.checkpoint_error = Some(error.info());
            }
        }
    }

    /// Takes the last checkpoint of a session that ends with its worker, or makes room for another one. Errors are only
    /// logged, because the session ends in any case.
    pub(super) async fn last_checkpoint(&self, session: &Session, conn: &Conn, saved: &mut Saved) {
        if !self.ctx.artifacts.is_lasting() {
            return;
        }
        let (tenant, name) = &session.key;
        let may = async || match self.ctx.registry.session_holder(tenant, name).await {
            Ok(Holder::Worker(worker)) if worker != self.ctx.id => Err(Failed::NotHeld),
            // If the registry can't say who holds it, the life decides.
            _ => Ok(()),
        };
        match self.take(session, conn, saved, may).await {
            Ok(manifest) => {
                tracing::info!(session = %name, files = manifest.files, "a session's files are kept for the next of its name");
            }
            Err(error) => tracing::warn!(session = %name, %error, "a session's files are lost with it"),
        }
    }

    /// Takes a checkpoint. `may` is called when all but the manifest is stored.
    async fn take(
        &self,
        session: &Session,
        conn: &Conn,
        saved: &mut Saved,
        may: impl AsyncFnOnce() -> Result<(), Failed>,
    ) -> Result<Manifest, Failed> {
        let (ctx, (tenant, name)) = (&self.ctx, &session.key);
        let work = async {
            let _turn = self.checkpoints.acquire().await.map_err(|_| Failed::Stopped)?;
            let work = async {
                let manifest = gather(ctx, session, conn, saved).await?;
                may().await?;
                ctx.artifacts.put_manifest(tenant, saved.life, &manifest).await?;
                Ok(manifest)
            };
            tokio::time::timeout(TIMEOUT, work).await.unwrap_or(Err(Failed::Late))
        };
        let manifest = ctx.stop.run_until_cancelled(work).await.unwrap_or(Err(Failed::Stopped))?;
        let named = |id: &String| manifest.chunks.iter().any(|chunk| chunk.id == *id);
        let last = saved.last.replace(manifest.clone()).map(|last| last.chunks).unwrap_or_default();
        let dropped = last.into_iter().map(|chunk| chunk.id).filter(|id| !named(id)).collect();
        let stale = std::mem::replace(&mut saved.stale, dropped);
        let older = std::mem::take(&mut saved.older);
        if !stale.is_empty() || !older.is_empty() {
            let (artifacts, life, (tenant, name)) = (ctx.artifacts.clone(), saved.life, session.key.clone());
            self.tasks.spawn(async move {
                artifacts.remove_chunks(&tenant, &name, life, &stale).await;
                if let Err(error) = artifacts.forget_lives(&tenant, &name, &older).await {
                    tracing::warn!(%error, session = %name, "an old checkpoint can't be removed; a sweep removes it");
                }
            });
        }
        tracing::debug!(session = %name, files = manifest.files, bytes = manifest.bytes, "checkpoint");
        Ok(manifest)
    }
}

/// Stores the chunks of a checkpoint. Those that the last one had already are not stored again.
async fn gather(ctx: &Context, session: &Session, conn: &Conn, saved: &Saved) -> Result<Manifest, Failed> {
    let options = session.pool.options();
    let (parts, bytes) = (options.bounds.checkpoint_files, options.disk.0);
    let (tenant, name) = &session.key;
    let mut manifest = Manifest::new(name.clone(), SystemTime::now() + saved.ttl);
    // A sweep may remove what an expired checkpoint names.
    let last = saved.last.iter().filter(|last| last.lasts(SystemTime::now()));
    let known: HashMap<&str, &Chunk> =
        last.flat_map(|last| &last.chunks).map(|chunk| (chunk.sha256.as_str(), chunk)).collect();
    let mut packer = Packer::new(parts, bytes);
    let mut running = conn.checkpoint(&Checkpoint { session: name.to_string(), parts, bytes })?;
    let mut storing: JoinSet<(usize, Result<Chunk, artifacts::Error>)> = JoinSet::new();
    let mut chunks: Vec<Option<Chunk>> = Vec::new();
    loop {
        let frame = running.next().await.ok_or(Failed::Ended)?;
        let last = frame.kind == Kind::Exit;
        let chunk = if last {
            manifest.left_out = left_out(&exit_of(&frame)?)?;
            packer.rest()
        } else {
            packer.take(frame)?
        };
        if let Some(chunk) = chunk {
            let sha256 = artifacts::digest(chunk.clone()).await;
            let stored = known.get(sha256.as_str()).map(|known| (*known).clone());
            if stored.is_none() {
                while storing.len() >= STORING
                    && let Some(stored) = storing.join_next().await
                {
                    let (at, chunk) = stored?;
                    chunks[at] = Some(chunk?);
                }
                let (artifacts, life, at) = (ctx.artifacts.clone(), saved.life, chunks.len());
                let (tenant, name) = (tenant.clone(), name.clone());
                storing.spawn(async move { (at, artifacts.put_chunk(&tenant, &name, life, chunk, sha256).await) });
            }
            chunks.push(stored);
        }
        if last {
            break;
        }
    }
    while let Some(stored) = storing.join_next().await {
        let (at, chunk) = stored?;
        chunks[at] = Some(chunk?);
    }
    (manifest.files, manifest.bytes) = (packer.files, packer.bytes);
    manifest.chunks = chunks.into_iter().flatten().collect();
    Ok(manifest)
}

/// How many things a complete walk has left out.
fn left_out(exit: &Exit) -> Result<u64, Failed> {
    match &exit.end {
        End::Exited { .. } => Ok(exit.left_out.list.len() as u64 + exit.left_out.more),
        End::Failed(failure) if matches!(failure.errno.as_str(), "EDQUOT" | "ELOOP") => {
            Err(Failed::TooLarge(format!("{} ({})", failure.message, failure.path)))
        }
        End::Failed(failure) => Err(Failed::Walk(failure.message.clone())),
        End::NoSession => Err(Failed::Ended),
        other => Err(Failed::Walk(format!("{other:?}"))),
    }
}
