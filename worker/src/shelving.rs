//! Moves large outcomes from the registry to the store, off the path of their jobs.
//!
//! An outcome is first recorded whole and published. Only when the store has it, the registry drops the bytes and keeps
//! their digest. So a store that is slow, full or away costs memory of the registry, within its budget, but never an
//! outcome.

use std::sync::Arc;
use std::time::Duration;

use thermae_backplane::registry::ShelveRequest;
use thermae_service::backoff::Backoff;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::shelf::{Large, Shelf};

/// Outcomes that are written to the store at once.
const AT_ONCE: usize = 4;
/// How often a failed attempt to write an outcome is repeated, and the shortest and the longest pause before that.
const RETRIES: u32 = 6;
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

impl Shelf {
    /// Takes an outcome that was recorded and published, if it is large and the store outlives this worker. Never
    /// waits.
    pub(crate) fn offer(&self, ctx: &Context, large: Large) {
        let bytes = large.outcome.len();
        let kept = !large.keep.outcome.is_zero() && !large.keep.record.is_zero();
        if !ctx.artifacts.is_lasting() || bytes as u64 <= ctx.options.outcome_inline_bytes.0 || !kept {
            return;
        }
        if !self.put(large) {
            ctx.metrics.shelved("skipped");
        }
    }

    /// Writes the outcomes to the store until `end`. Those that are not written by then stay in the registry.
    pub(crate) async fn run(&self, ctx: &Arc<Context>, end: &CancellationToken) {
        let Some(mut from) = self.take() else { return };
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
    let (mut pause, mut retries) = (Backoff::new(PAUSES.0, PAUSES.1), 0..RETRIES);
    let digest = loop {
        match (ctx.artifacts.put_outcome(&job.tenant, outcome.clone()).await, retries.next()) {
            (Ok(digest), _) => break digest,
            (Err(_), Some(_)) => pause.wait().await,
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
