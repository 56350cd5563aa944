//! The path of one delivery through the worker, from its queue to its acknowledgement.
//!
//! ```text
//! delivery ─▶ checks ─▶ slot, container ─▶ start (fence) ─▶ run ─▶ finish (record) ─▶ publish ─▶ ack
//!    │          │            │                 │             │        │
//!    │          │ rejected   │ none, or we     │ ended,      │        └ another outcome counts: that one is published
//!    │          ▼            ▼ drain           ▼ moved on    └ container dies: once more by `resolve`, or `lost`
//! dead letter  reject     requeue         publish / resolve  └ lease lost: nothing is sent, `resolve` decides
//! ```
//!
//! The order of the last four steps makes the promise true: nothing runs before *start* allows it, nothing is published
//! that is not recorded, and nothing is acknowledged that is not published. If the worker crashes between two steps,
//! the delivery comes again and finds the record.

mod claim;
mod code;
mod conclude;
mod events;
mod fresh;
mod prepare;
mod seat;
mod settle;

pub(crate) use claim::claim;
pub(crate) use code::{Ended, Ran, run_code};
pub(crate) use conclude::conclude;
pub(crate) use events::send_alone;
use fresh::pool_job;
pub(crate) use prepare::{Prepared, prepare};
pub(crate) use seat::Seat;
pub(crate) use settle::{publish, reject, reply, requeue, to_resolve};

use std::sync::Arc;

use thermae_backplane::bus::Delivery;
use thermae_service::supervise::caught;
use tracing::{Instrument, Span};

use crate::context::Context;
use crate::work::Work;

/// Reads a delivery from a work queue. If it did not come from a scheduler, it is dead-lettered, so that `resolve` gets
/// it.
pub(crate) async fn read(delivery: Delivery) -> Option<(Work, Delivery)> {
    match Work::read(&delivery) {
        Ok(work) => Some((work, delivery)),
        Err(e) => {
            let id = delivery.message.message_id.as_deref().unwrap_or_default();
            tracing::error!(job.id = id, error = %e, "a delivery did not come from a scheduler");
            let _ = delivery.dead_letter().await;
            None
        }
    }
}

/// Takes a job without a session through the worker. If this panics, the delivery goes to `resolve`, because the code
/// may have started. The job's container is then dropped while it is in use, and so removed.
pub(crate) async fn attempt(ctx: Arc<Context>, work: Work, delivery: Delivery) {
    let span = span(&work);
    async {
        let run = Box::pin(pool_job(Arc::clone(&ctx), work, &delivery));
        if caught("attempt", run).await.is_err() {
            to_resolve(&ctx, &delivery, "panicked").await;
        }
    }
    .instrument(span)
    .await;
}

/// The span of an attempt. Its parent is the span of the client that submitted the job.
pub(crate) fn span(work: &Work) -> Span {
    let span = tracing::info_span!(
        "job",
        otel.kind = "consumer",
        messaging.system = "rabbitmq",
        messaging.operation.name = "process",
        job.id = %work.key.job,
        job.tenant = %work.key.tenant,
        job.pool = %work.job.pool,
        job.attempt = work.attempt,
        job.status = tracing::field::Empty,
    );
    thermae_service::trace::adopt(&span, &work.trace);
    span
}
