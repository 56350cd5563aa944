//! The worker's consumers: jobs of its pools, jobs for this worker alone, cancels, requests to sessions, and questions
//! about runs.

use std::sync::Arc;
use std::time::Duration;

use thermae_backplane::bus::{self, Consumer, Delivery, QueueSpec};
use thermae_backplane::registry::JobKey;
use thermae_schemas::{Body, Cancel, OLDEST, PROTOCOL, TenantName, names};
use thermae_service::backoff::Backoff;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::attempt::{attempt, read};
use crate::context::Context;
use crate::pool::{Condition, Pool};
use crate::requests::Requests;
use crate::runs;
use crate::sessions::Sessions;

/// Cancels and requests that may be unacknowledged at once.
const CONTROL_PREFETCH: u16 = 256;
/// Time between two attempts to subscribe.
const AGAIN: Duration = Duration::from_secs(1);

/// Declares the queues that the worker uses.
pub(crate) async fn declare(ctx: &Context) -> Result<(), bus::Error> {
    thermae_backplane::declare_fleet(&*ctx.bus).await?;
    thermae_backplane::declare_worker(&*ctx.bus, &ctx.id).await?;
    for pool in ctx.pools.keys() {
        for protocol in OLDEST..=PROTOCOL {
            ctx.bus.declare_queue(&QueueSpec::pool(pool, protocol)).await?;
        }
    }
    if ctx.artifacts.is_lasting() {
        ctx.bus.declare_queue(&QueueSpec::outcomes()).await?;
    }
    Ok(())
}

/// Declares a queue that is gone: it expired while this worker was away, or the scheduler took the worker for dead and
/// deleted it.
///
/// A queue that still exists is never declared again. The scheduler unbinds a dead worker's queue before it drains and
/// deletes it, so that nothing more arrives. A declaration in between would bind the queue again.
async fn declare_again(ctx: &Context, spec: &QueueSpec) -> Result<(), bus::Error> {
    tracing::warn!(queue = spec.name, "a queue of this worker is gone; declaring it again");
    if spec.name == names::worker_queue(&ctx.id) {
        thermae_backplane::remember_worker(&*ctx.bus, &ctx.id).await?;
    }
    ctx.bus.declare_queue(spec).await
}

/// Subscribes to a queue, and tries until this succeeds. `None` if `end` comes first.
pub(crate) async fn subscribe(
    ctx: &Context,
    spec: &QueueSpec,
    prefetch: u16,
    end: &CancellationToken,
) -> Option<Box<dyn Consumer>> {
    let mut gone = false;
    loop {
        let tried = async {
            if gone {
                declare_again(ctx, spec).await?;
            }
            ctx.bus.consume(&spec.name, prefetch).await
        };
        match end.run_until_cancelled(tried).await? {
            Ok(consumer) => return Some(consumer),
            Err(bus::Error::Topology(_)) if !gone => gone = true,
            Err(e) => {
                tracing::warn!(queue = spec.name, error = %e, "can't subscribe to the queue; trying again");
                gone = matches!(e, bus::Error::Topology(_));
                end.run_until_cancelled(Backoff::steady(AGAIN).wait()).await?;
            }
        }
    }
}

/// Takes a pool's jobs of one version of the protocol while the pool is ready, until the worker drains. Returns when
/// all jobs that were taken are settled.
pub(crate) async fn pool_queue(ctx: Arc<Context>, pool: Arc<Pool>, protocol: u32) {
    let queue = QueueSpec::pool(pool.name(), protocol);
    // As many as can run at once: further jobs would only wait here, while another worker could run them.
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
        // Deliveries that were not looked at go back now. Those of running jobs can still be acknowledged.
        let _ = consumer.stop().await;
        jobs.close();
        jobs.wait().await;
        if ended == Ended::Lost {
            let _ = ctx.draining.run_until_cancelled(Backoff::steady(AGAIN).wait()).await;
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
                        attempt(ctx, work, delivery).await;
                    }
                });
            }
        }
    }
}

/// Takes the jobs for this worker alone: those of its sessions. The jobs of each session stay in order.
pub(crate) async fn worker_queue(ctx: Arc<Context>, sessions: Arc<Sessions>, tasks: TaskTracker) {
    let queue = QueueSpec::worker(&ctx.id);
    let most: u32 = ctx.pools.values().map(|p| p.options().max_sessions * 4 + p.options().slots()).sum();
    let prefetch = u16::try_from(most).unwrap_or(u16::MAX).max(16);
    while let Some(mut consumer) = subscribe(&ctx, &queue, prefetch, &ctx.draining).await {
        ctx.registered.send_replace(true);
        while let Some(Some(delivery)) = ctx.draining.run_until_cancelled(consumer.next()).await {
            let Some((work, delivery)) = read(delivery).await else { continue };
            match work.job.session.as_ref().map(|s| s.id.clone()) {
                Some(session) => sessions.submit(session, work, delivery),
                None => {
                    tasks.spawn(attempt(Arc::clone(&ctx), work, delivery));
                }
            }
        }
        ctx.registered.send_replace(false);
        let _ = consumer.stop().await;
        if ctx.draining.is_cancelled() {
            // The sessions' tasks still have to settle their deliveries, so the consumer must live until then.
            tasks.wait().await;
            return;
        }
    }
}

/// Takes cancels, requests to sessions, and questions about runs, until `end`.
pub(crate) async fn control_queue(ctx: Arc<Context>, requests: Arc<Requests>, end: CancellationToken) {
    let queue = QueueSpec::control(&ctx.id);
    while let Some(mut consumer) = subscribe(&ctx, &queue, CONTROL_PREFETCH, &end).await {
        while let Some(Some(delivery)) = end.run_until_cancelled(consumer.next()).await {
            let tenant = tenant_of(&delivery);
            match tenant.clone().and_then(|tenant| cancelled(tenant, &delivery)) {
                _ if delivery.message.headers.text(names::H_REQUEST).is_some() => match tenant {
                    Some(tenant) => requests.take(tenant, &delivery.message),
                    None => tracing::warn!("a request to a session names no tenant"),
                },
                _ if delivery.message.headers.text(names::H_QUERY) == Some(names::QUERY_RUN) => match tenant {
                    Some(tenant) => runs::answer(&ctx, tenant, &delivery.message).await,
                    None => tracing::warn!("a question about a run names no tenant"),
                },
                Some(key) => {
                    let found = ctx.table.cancel(&key);
                    tracing::info!(job.id = %key.job, job.tenant = %key.tenant, found, "the client cancels a job");
                }
                None => tracing::warn!("a control message can't be read"),
            }
            let _ = delivery.ack().await;
        }
    }
}

fn tenant_of(delivery: &Delivery) -> Option<TenantName> {
    TenantName::new(delivery.message.headers.text(names::H_TENANT)?).ok()
}

fn cancelled(tenant: TenantName, delivery: &Delivery) -> Option<JobKey> {
    let cancel = Cancel::parse(&delivery.message.body).ok()?;
    Some(JobKey::new(tenant, cancel.job))
}
