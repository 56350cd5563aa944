//! One delivery's way through the worker, from the queue to its acknowledgement.
//!
//! ```text
//! delivery ─▶ checks ─▶ slot, container ─▶ start (fence) ─▶ run ─▶ finish (record) ─▶ publish ─▶ ack
//!    │          │            │                 │             │        │
//!    │          │ rejected   │ none, or we     │ ended,      │        └ another outcome stands: that one is published
//!    │          ▼            ▼ drain           ▼ moved on    └ container dies: once more by `resolve`, or `lost`
//! dead letter  settle     requeue         publish / resolve  └ lease lost: nothing is sent, `resolve` decides
//! ```
//!
//! The order of the last four steps is the promise: nothing runs before *start* says so, nothing is published that is not
//! recorded, nothing is acknowledged that is not published. A crash between any two leaves a delivery that comes again and
//! finds the record.

mod claim;
mod code;
mod conclude;
mod events;
mod fresh;
mod prepare;
mod settle;

pub(crate) use claim::claim;
pub(crate) use code::{Ended, Place, Ran, run_code};
pub(crate) use conclude::conclude;
pub(crate) use fresh::pool_job;
pub(crate) use prepare::{Prepared, prepare};
pub(crate) use settle::{reject, requeue, to_resolve};

use thermae_backplane::bus::Delivery;
use tracing::Span;

use crate::work::Work;

/// Reads a delivery of a work queue. What is none of the scheduler's goes to the dead letters, where `resolve` sees it.
pub(crate) async fn read(delivery: Delivery) -> Option<(Work, Delivery)> {
    match Work::read(&delivery) {
        Ok(work) => Some((work, delivery)),
        Err(e) => {
            let id = delivery.message.message_id.as_deref().unwrap_or_default();
            tracing::error!(job.id = id, error = %e, "a delivery that no scheduler made");
            let _ = delivery.dead_letter().await;
            None
        }
    }
}

/// The span of an attempt, below that of whoever submitted the job.
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
