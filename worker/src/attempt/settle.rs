//! The ways in which a delivery leaves the worker: answered and acknowledged, back to its queue, or to `resolve`.

use bytes::Bytes;
use thermae_backplane::bus::{self, Delivery, Headers, Message};
use thermae_backplane::record::{Address, Answer, EndUnstarted, Ended};
use thermae_backplane::registry::EndUnstartedRequest;
use thermae_backplane::stored::Wanted;
use thermae_schemas::{Outcome, names};
use tracing::Span;

use crate::context::Context;
use crate::outcome::Told;
use crate::phase::Phase;
use crate::wire;
use crate::work::Work;

/// The result message of an outcome. These bytes are recorded, and published as often as necessary.
pub(super) fn result_of(work: &Work, attempt: u32, told: &Told) -> Bytes {
    match wire::result(work, attempt, told) {
        Ok(body) => body,
        Err(e) => {
            // Maps with text keys, and finite numbers, can always be written as JSON.
            tracing::error!(error = %e, "an outcome can't be written as JSON");
            Bytes::from_static(b"{}")
        }
    }
}

/// A message to the client that has the job's run.
pub(crate) fn reply(work: &Work, to: Address, body: Bytes, persistent: bool) -> Message {
    let mut headers = Headers::default();
    let trace = thermae_service::trace::forward(&Span::current(), &work.trace);
    for (name, value) in [(names::H_TRACEPARENT, trace.traceparent), (names::H_TRACESTATE, trace.tracestate)] {
        if let Some(value) = value {
            headers.set_text(name, value);
        }
    }
    Message {
        exchange: names::REPLIES.to_owned(),
        key: to.reply_key,
        body,
        message_id: Some(work.key.job.to_string()),
        correlation_id: to.correlation_id,
        headers,
        mandatory: true,
        persistent,
        ..Message::default()
    }
}

/// Publishes a message until the broker has confirmed it. `false` if the worker gave up first. If a client's own queue
/// refuses the message, it is not tried again: the client may have made a queue of no size at all, and then the job
/// would never leave the worker.
#[tracing::instrument(name = "publish", skip_all)]
pub(crate) async fn publish(ctx: &Context, message: Message) -> Result<bool, bus::Error> {
    let to_client = message.exchange == names::REPLIES;
    let done = ctx
        .insist("publish", || {
            let message = message.clone();
            async move {
                match ctx.bus.publish(message).await?.wait().await {
                    Err(e @ bus::Error::Refused { .. }) if to_client => Ok(Err(e)),
                    sent => sent.map(Ok),
                }
            }
        })
        .await;
    match done {
        None => Ok(false),
        Some(Ok(Ok(()))) => Ok(true),
        Some(Ok(Err(e)) | Err(e)) => Err(e),
    }
}

/// Publishes a recorded result, then acknowledges.
pub(super) async fn publish_and_ack(
    ctx: &Context,
    delivery: &Delivery,
    work: &Work,
    to: Option<Address>,
    result: Bytes,
) {
    let pool = &work.job.pool;
    if let Some(to) = to {
        let began = std::time::Instant::now();
        match publish(ctx, reply(work, to, result, true)).await {
            // Neither published nor acknowledged: the delivery comes again, finds the record, and its result is
            // published then.
            Ok(false) => return,
            Ok(true) => ctx.metrics.phase(pool, Phase::Publish, began.elapsed().as_secs_f64()),
            Err(e @ bus::Error::Unroutable { .. }) => {
                tracing::info!(error = %e, "nobody receives the result; it stays recorded")
            }
            Err(e @ bus::Error::Refused { .. }) => {
                tracing::warn!(error = %e, "the client's queue does not accept the result; it stays recorded")
            }
            Err(e) => tracing::error!(error = %e, "the result can't be published; it stays recorded"),
        }
    }
    let began = std::time::Instant::now();
    ack(delivery).await;
    ctx.metrics.phase(pool, Phase::Ack, began.elapsed().as_secs_f64());
}

/// Publishes what is left of a job that has ended, then acknowledges. If the outcome is in the store, this publishes a
/// request for it. Whichever worker takes the request reads the store, so that no job's slot waits for the store here.
pub(super) async fn tell_and_ack(ctx: &Context, delivery: &Delivery, work: &Work, to: Option<Address>, ended: Ended) {
    if let (Some(wanted), Some(to)) = (Wanted::new(&work.key, &ended), to.clone()) {
        match publish(ctx, wanted.message(to.reply_key, to.correlation_id)).await {
            Ok(true) => return ack(delivery).await,
            Ok(false) => return,
            Err(e) => tracing::error!(error = %e, "an outcome is in the store, but no worker can be asked for it"),
        }
    }
    publish_and_ack(ctx, delivery, work, to, ended.result(&work.key.job)).await;
}

/// Acknowledges a delivery. If this fails, the delivery comes again, finds the record, and is answered from it.
pub(super) async fn ack(delivery: &Delivery) {
    if let Err(e) = delivery.ack().await {
        tracing::debug!(error = %e, "the acknowledgement failed; the delivery will come again");
    }
}

/// Gives a delivery back to its queue. Nothing of its job ran.
pub(crate) async fn requeue(ctx: &Context, delivery: &Delivery, why: &'static str) {
    ctx.metrics.returned.with_label_values(&[why]).inc();
    tracing::info!(why, "handing the job back to its queue");
    if let Err(e) = delivery.requeue().await {
        tracing::debug!(error = %e, "the requeue failed; the delivery will come again");
    }
}

/// Hands a delivery to `resolve`, which holds it until its job has ended or its lease has passed. Then acknowledges it.
pub(crate) async fn to_resolve(ctx: &Context, delivery: &Delivery, why: &'static str) {
    if delivery.is_settled() {
        // The run was paused, so a copy is there already.
        return;
    }
    ctx.metrics.returned.with_label_values(&[why]).inc();
    tracing::info!(why, "handing the job to resolve");
    let message = Message {
        exchange: names::RESOLVE.to_owned(),
        key: String::new(),
        // A scheduler may have signed the message, and the broker accepts no message in another user's name.
        user_id: None,
        mandatory: true,
        persistent: true,
        ..delivery.message.as_ref().clone()
    };
    match publish(ctx, message).await {
        Ok(true) => ack(delivery).await,
        Ok(false) => {}
        Err(e) => {
            tracing::error!(error = %e, "the job can't be handed to resolve");
            let _ = delivery.requeue().await;
        }
    }
}

/// Ends a job that has not started.
pub(crate) async fn reject(ctx: &Context, delivery: &Delivery, work: &Work, outcome: Outcome) {
    let status = outcome.status;
    let code = outcome.error.as_ref().map_or("", |e| e.code.as_str());
    tracing::info!(error.code = code, "the job is rejected");
    let request = EndUnstartedRequest {
        job: work.key.clone(),
        pool: Some(work.job.pool.clone()),
        outcome: result_of(work, 0, &outcome.into()),
        status,
        digest: None,
        cancel: false,
        keep: ctx.options.keep(&work.job.pool),
    };
    let Answer { what, taker } = match ctx.insist("settle", || ctx.registry.end_unstarted(&request)).await {
        None => return,
        Some(Ok(answer)) => answer,
        Some(Err(e)) => {
            tracing::error!(error = %e, "the job's record can't be read");
            return to_resolve(ctx, delivery, "record_unreadable").await;
        }
    };
    let to = taker.map(|taker| taker.address).or_else(|| work.submitter.clone());
    match what {
        EndUnstarted::Won => {
            ctx.metrics.job(&work.job.pool, status);
            publish_and_ack(ctx, delivery, work, to, request.outcome).await;
        }
        EndUnstarted::Terminal(other) => tell_and_ack(ctx, delivery, work, to, other).await,
        // Only a request that names a digest can get this answer.
        EndUnstarted::Conflict => ack(delivery).await,
        EndUnstarted::Started { .. } => to_resolve(ctx, delivery, "started_elsewhere").await,
    }
}
