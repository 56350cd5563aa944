//! Answers requests for outcomes that are in the store. The requests come from the queue `work.outcomes`, which all
//! workers with the store share.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use thermae_backplane::bus::{self, Delivery, Message, QueueSpec};
use thermae_backplane::record::EndUnstarted;
use thermae_backplane::registry::{EndUnstartedRequest, JobKey};
use thermae_backplane::stored::{Follower, Wanted};
use thermae_schemas::{Body, Event, EventBody, JobId, names};
use thermae_service::backoff::Backoff;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::attempt::publish;
use crate::consume::subscribe;
use crate::context::Context;
use crate::shelf::Large;

/// Requests that are answered at the same time.
const PREFETCH: u16 = 8;
/// How long a failing store is tried. This is well below RabbitMQ's timeout for acknowledgements.
const RETRY_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Shortest and longest pause between two attempts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// Answers requests until `end`.
pub(crate) async fn outcomes_queue(ctx: Arc<Context>, end: CancellationToken) {
    let queue = QueueSpec::outcomes();
    while let Some(mut consumer) = subscribe(&ctx, &queue, PREFETCH, &end).await {
        // A request that is dropped without an answer is delivered again, to this worker or another.
        let mut under_way = JoinSet::new();
        loop {
            let delivery = tokio::select! {
                () = end.cancelled() => return,
                Some(_) = under_way.join_next() => continue,
                delivery = consumer.next() => delivery,
            };
            let Some(delivery) = delivery else { break };
            let ctx = Arc::clone(&ctx);
            under_way.spawn(async move { answer(&ctx, &delivery).await });
        }
    }
}

async fn answer(ctx: &Context, delivery: &Delivery) {
    let message = &delivery.message;
    let told = match Wanted::read(message) {
        Some(wanted) => {
            let outcome = whole(ctx, &wanted).await;
            match &wanted.follower {
                None => send(ctx, message, &wanted.job, outcome).await,
                Some(follower) => follow(ctx, message, &wanted, follower, outcome).await,
            }
        }
        None => {
            tracing::error!("a request for an outcome did not come from a scheduler");
            true
        }
    };
    if told && let Err(error) = delivery.ack().await {
        tracing::debug!(%error, "the acknowledgement failed; the request will come again");
    }
}

/// The outcome that is asked for. If the store does not give it, an outcome that says that it is no longer kept.
async fn whole(ctx: &Context, wanted: &Wanted) -> Bytes {
    let (began, mut pause) = (Instant::now(), Backoff::new(PAUSES.0, PAUSES.1));
    loop {
        match ctx.artifacts.outcome(&wanted.tenant, &wanted.digest).await {
            Ok(Some(outcome)) => return outcome,
            Ok(None) => tracing::warn!(job.id = %wanted.job, "the store does not have an outcome any more"),
            Err(error) if began.elapsed() < RETRY_TIMEOUT => {
                tracing::warn!(job.id = %wanted.job, %error, "an outcome can't be read from the store; trying again");
                pause.wait().await;
                continue;
            }
            Err(error) => tracing::error!(job.id = %wanted.job, %error, "an outcome can't be read from the store"),
        }
        return wanted.tombstone().result(&wanted.job);
    }
}

/// Publishes a result. `false` if the worker gave up first.
async fn send(ctx: &Context, request: &Message, job: &JobId, body: Bytes) -> bool {
    let Some(key) = request.reply_to.clone().filter(|key| !key.is_empty()) else { return true };
    let message = Message {
        exchange: names::REPLIES.to_owned(),
        key,
        body,
        message_id: Some(job.to_string()),
        correlation_id: request.correlation_id.clone(),
        mandatory: true,
        persistent: true,
        ..Message::default()
    };
    match publish(ctx, message).await {
        Ok(published) => published,
        Err(error @ (bus::Error::Unroutable { .. } | bus::Error::Refused { .. })) => {
            tracing::info!(%error, "no client's queue accepts a stored outcome");
            true
        }
        Err(error) => {
            tracing::error!(%error, "a stored outcome can't be published");
            true
        }
    }
}

/// Ends a job with the outcome of an equal job that came first.
async fn follow(ctx: &Context, request: &Message, wanted: &Wanted, follower: &Follower, outcome: Bytes) -> bool {
    let Ok(EventBody::Result(mut outcome)) = Event::parse(&outcome).map(|event| event.body) else {
        tracing::error!(job.id = %wanted.job, "a recorded outcome can't be read");
        return true;
    };
    outcome.duplicate_of = Some(wanted.job.to_string());
    let status = outcome.status;
    let body = Event::new(follower.job.clone(), 0, EventBody::Result(outcome)).to_json();
    let end = EndUnstartedRequest {
        job: JobKey::new(wanted.tenant.clone(), follower.job.clone()),
        pool: Some(follower.pool.clone()),
        // Writing plain structures to memory can't fail.
        outcome: body.unwrap_or_default().into(),
        status,
        digest: Some(follower.digest.clone()),
        cancel: false,
        keep: ctx.options.keep(&follower.pool),
    };
    match ctx.insist("settle", || ctx.registry.end_unstarted(&end)).await.map(|done| done.map(|answer| answer.what)) {
        None => false,
        Some(Ok(EndUnstarted::Won)) => {
            let sent = send(ctx, request, &follower.job, end.outcome.clone()).await;
            ctx.shelf.offer(ctx, Large { job: end.job, outcome: end.outcome, keep: end.keep });
            sent
        }
        Some(Ok(EndUnstarted::Terminal(ended))) => match Wanted::new(&end.job, &ended) {
            // The request came twice: the job's own outcome is in the store by now.
            Some(own) => {
                let outcome = whole(ctx, &own).await;
                send(ctx, request, &follower.job, outcome).await
            }
            None => send(ctx, request, &follower.job, ended.result(&follower.job)).await,
        },
        // The worker that runs the job answers, or another job has this id.
        Some(Ok(EndUnstarted::Started { .. } | EndUnstarted::Conflict)) => true,
        Some(Err(error)) => {
            tracing::error!(job.id = %follower.job, %error, "the job's record can't be read");
            true
        }
    }
}
