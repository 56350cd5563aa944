//! The worker's consumers: jobs of its pools, jobs for itself alone, cancels, answers to tool calls.

use std::sync::Arc;
use std::time::Duration;

use thermae_backplane::bus::{Consumer, Delivery, Message, QueueSpec};
use thermae_backplane::registry::JobKey;
use thermae_schemas::{Cancel, TenantName, names};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::attempt::{pool_job, read, span};
use crate::context::Context;
use crate::pool::{Condition, Pool};
use crate::sessions::Sessions;

/// Deliveries of small control messages that may be unsettled at once.
const CONTROL_PREFETCH: u16 = 256;

/// Makes sure of the worker's queues.
pub(crate) async fn declare(ctx: &Context) -> Result<(), thermae_backplane::bus::Error> {
    thermae_backplane::declare_fleet(&*ctx.bus).await?;
    let own = [QueueSpec::worker(&ctx.id), QueueSpec::control(&ctx.id), QueueSpec::calls(&ctx.id)];
    for spec in own.into_iter().chain(ctx.pools.keys().map(QueueSpec::pool)) {
        ctx.bus.declare_queue(&spec).await?;
    }
    Ok(())
}

/// Subscribes, trying until it succeeds; `None` when the worker ends first.
async fn subscribe(ctx: &Context, queue: &str, prefetch: u16, end: &CancellationToken) -> Option<Box<dyn Consumer>> {
    loop {
        let wait = match end.run_until_cancelled(ctx.bus.consume(queue, prefetch)).await? {
            Ok(consumer) => return Some(consumer),
            Err(e) => {
                tracing::warn!(queue, error = %e, "can't subscribe; trying on");
                Duration::from_secs(1)
            }
        };
        end.run_until_cancelled(tokio::time::sleep(wait)).await?;
    }
}

/// Takes a pool's jobs while the pool is of use, until the worker drains; returns when all it took are settled.
pub(crate) async fn pool_queue(ctx: Arc<Context>, pool: Arc<Pool>) {
    let queue = names::pool_queue(pool.name());
    // As many as run at once: more would only wait here while another worker could run them.
    let prefetch = u16::try_from(pool.options().slots()).unwrap_or(u16::MAX);
    let mut condition = pool.condition();
    loop {
        let ready = condition.wait_for(|c| *c == Condition::Ready);
        match ctx.draining.run_until_cancelled(ready).await {
            Some(Ok(_)) => {}
            _ => return,
        }
        let Some(mut consumer) = subscribe(&ctx, &queue, prefetch, &ctx.draining).await else { return };
        let jobs = TaskTracker::new();
        let ended = take_jobs(&ctx, &mut *consumer, &mut condition, &jobs).await;
        // What was sent and not seen goes back now; what runs here can still be acknowledged.
        let _ = consumer.stop().await;
        jobs.close();
        jobs.wait().await;
        if ended == Ended::Lost {
            let _ = ctx.draining.run_until_cancelled(tokio::time::sleep(Duration::from_secs(1))).await;
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Paused,
    Lost,
}

async fn take_jobs(
    ctx: &Arc<Context>,
    consumer: &mut dyn Consumer,
    condition: &mut watch::Receiver<Condition>,
    jobs: &TaskTracker,
) -> Ended {
    loop {
        tokio::select! {
            biased;
            () = ctx.draining.cancelled() => return Ended::Paused,
            bad = condition.wait_for(|c| *c != Condition::Ready) => {
                if let Ok(bad) = &bad
                    && let Condition::Unhealthy(why) = &**bad
                {
                    tracing::warn!(why, "no more jobs are taken until containers can be made again");
                }
                return Ended::Paused;
            }
            delivery = consumer.next() => {
                let Some(delivery) = delivery else { return Ended::Lost };
                let ctx = Arc::clone(ctx);
                jobs.spawn(async move {
                    if let Some((work, delivery)) = read(delivery).await {
                        let span = span(&work);
                        Box::pin(pool_job(ctx, work, delivery)).instrument(span).await;
                    }
                });
            }
        }
    }
}

/// Takes the jobs that are for this worker alone: those of its sessions. In order, each session's.
pub(crate) async fn worker_queue(ctx: Arc<Context>, sessions: Arc<Sessions>, tasks: TaskTracker) {
    let queue = names::worker_queue(&ctx.id);
    let most: u32 = ctx.pools.values().map(|p| p.options().max_sessions * 4 + p.options().slots()).sum();
    let prefetch = u16::try_from(most).unwrap_or(u16::MAX).max(16);
    while let Some(mut consumer) = subscribe(&ctx, &queue, prefetch, &ctx.draining).await {
        while let Some(Some(delivery)) = ctx.draining.run_until_cancelled(consumer.next()).await {
            let Some((work, delivery)) = read(delivery).await else { continue };
            match work.job.session.as_ref().map(|s| s.id.clone()) {
                Some(session) => sessions.submit(session, work, delivery),
                None => {
                    let ctx = Arc::clone(&ctx);
                    let span = span(&work);
                    tasks.spawn(Box::pin(pool_job(ctx, work, delivery)).instrument(span));
                }
            }
        }
        let _ = consumer.stop().await;
        if ctx.draining.is_cancelled() {
            // The sessions' tasks still settle what they hold: the consumer lives until they have.
            tasks.wait().await;
            return;
        }
    }
}

/// Takes cancels until `end`.
pub(crate) async fn control_queue(ctx: Arc<Context>, end: CancellationToken) {
    let queue = names::control_queue(&ctx.id);
    while let Some(mut consumer) = subscribe(&ctx, &queue, CONTROL_PREFETCH, &end).await {
        while let Some(Some(delivery)) = end.run_until_cancelled(consumer.next()).await {
            match cancelled(&delivery) {
                Some(key) => {
                    let found = ctx.table.cancel(&key);
                    tracing::info!(job.id = %key.job, job.tenant = %key.tenant, found, "the client cancels a job");
                }
                None => tracing::warn!("a control message that is no cancel"),
            }
            let _ = delivery.ack().await;
        }
    }
}

fn cancelled(delivery: &Delivery) -> Option<JobKey> {
    let tenant = TenantName::new(delivery.message.headers.text(names::H_TENANT)?).ok()?;
    let cancel: Cancel = serde_json::from_slice(&delivery.message.body).ok()?;
    Some(JobKey::new(tenant, cancel.job))
}

/// Takes answers to tool calls until `end`.
pub(crate) async fn calls_queue(ctx: Arc<Context>, end: CancellationToken) {
    let queue = names::calls_queue(&ctx.id);
    while let Some(mut consumer) = subscribe(&ctx, &queue, CONTROL_PREFETCH, &end).await {
        while let Some(Some(delivery)) = end.run_until_cancelled(consumer.next()).await {
            match author(&ctx, &delivery.message) {
                Some(tenant) => {
                    if let Err(e) = ctx.calls.answer(&tenant, &delivery.message.body) {
                        tracing::debug!(job.tenant = %tenant, error = %e, "an answer to a tool call is not taken");
                    }
                }
                None => {
                    let key = &delivery.message.key;
                    tracing::warn!(key, "an answer to a tool call that its tenant did not send here is dropped");
                    ctx.metrics.forged.inc();
                }
            }
            let _ = delivery.ack().await;
        }
    }
}

/// The tenant that wrote an answer. Its key is the broker's word for that, since topic permissions bind a tenant to its own; but by
/// way of a CC header or a dead letter RabbitMQ lets a tenant write here under keys that it did not check.
fn author(ctx: &Context, message: &Message) -> Option<TenantName> {
    let tenant = names::tenant_of(&message.key)?;
    let honest = message.key == names::calls_key(&tenant, &ctx.id) && !message.came_as_dead_letter();
    honest.then_some(tenant)
}
