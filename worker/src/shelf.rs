//! Moves large outcomes from the registry to the store, off the path of their jobs.
//!
//! An outcome is first recorded whole and published. Only when the store has it, the registry drops the bytes and keeps
//! their digest. So a store that is slow, full or away costs memory of the registry, within its budget, but never an
//! outcome.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use thermae_backplane::registry::{JobKey, Keep, ShelveRequest};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::context::Context;

/// Most outcomes that may wait or be written at once, and most bytes of them. Further outcomes stay in the registry.
const WAITING: usize = 256;
const WAITING_BYTES: usize = 64 << 20;
/// Outcomes that are written to the store at once.
const AT_ONCE: usize = 4;
/// Pauses between the attempts to write an outcome.
const PAUSES: [Duration; 3] = [Duration::from_millis(200), Duration::from_secs(2), Duration::from_secs(10)];

/// An outcome that was recorded and published.
#[derive(Debug)]
pub(crate) struct Large {
    /// The job that the outcome belongs to.
    pub job: JobKey,
    /// The result message.
    pub outcome: Bytes,
    /// How long, and within which budget, the registry keeps it.
    pub keep: Keep,
}

type Item = (Large, OwnedSemaphorePermit);

/// Large outcomes on their way to the store.
pub(crate) struct Shelf {
    room: Arc<Semaphore>,
    to: mpsc::Sender<Item>,
    from: Mutex<Option<mpsc::Receiver<Item>>>,
}

impl Default for Shelf {
    fn default() -> Self {
        let (to, from) = mpsc::channel(WAITING);
        Self { room: Arc::new(Semaphore::new(WAITING_BYTES)), to, from: Mutex::new(Some(from)) }
    }
}

impl Shelf {
    /// Takes an outcome that was recorded and published, if it is large and the store outlives this worker. Never
    /// waits.
    pub(crate) fn offer(&self, ctx: &Context, large: Large) {
        let bytes = large.outcome.len();
        let kept = !large.keep.outcome.is_zero() && !large.keep.record.is_zero();
        if !ctx.artifacts.is_lasting() || bytes as u64 <= ctx.options.outcome_inline_bytes.0 || !kept {
            return;
        }
        let room = u32::try_from(bytes).ok().and_then(|n| Arc::clone(&self.room).try_acquire_many_owned(n).ok());
        if room.is_none_or(|room| self.to.try_send((large, room)).is_err()) {
            ctx.metrics.shelved("skipped");
        }
    }

    /// Writes the outcomes to the store until `end`. Those that are not written by then stay in the registry.
    pub(crate) async fn run(&self, ctx: &Arc<Context>, end: &CancellationToken) {
        let Some(mut from) = self.from.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        let mut writing = JoinSet::new();
        loop {
            tokio::select! {
                () = end.cancelled() => return,
                Some(_) = writing.join_next() => {}
                item = from.recv(), if writing.len() < AT_ONCE => {
                    let Some((large, room)) = item else { return };
                    let ctx = Arc::clone(ctx);
                    writing.spawn(async move {
                        shelve(&ctx, large).await;
                        drop(room);
                    });
                }
            }
        }
    }
}

async fn shelve(ctx: &Context, large: Large) {
    let Large { job, outcome, keep } = large;
    let bytes = outcome.len();
    let mut pauses = PAUSES.iter();
    let digest = loop {
        match (ctx.artifacts.put_outcome(&job.tenant, outcome.clone()).await, pauses.next()) {
            (Ok(digest), _) => break digest,
            (Err(_), Some(pause)) => tokio::time::sleep(*pause).await,
            (Err(error), None) => {
                tracing::error!(job.id = %job.job, %error, "an outcome can't be stored; Redis keeps it");
                return ctx.metrics.shelved("failed");
            }
        }
    };
    drop(outcome);
    let request = ShelveRequest { job, digest, bytes, keep };
    match ctx.insist("shelve", || ctx.registry.shelve(&request)).await {
        Some(Ok(_)) => ctx.metrics.shelved("stored"),
        Some(Err(error)) => {
            tracing::error!(job.id = %request.job.job, %error, "the job's record can't be read");
            ctx.metrics.shelved("failed");
        }
        None => {}
    }
}
