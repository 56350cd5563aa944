//! Dead workers: the messages in their queues go to `resolve`, then the queues are deleted.
//!
//! A worker is dead if the registry says so, or if it is in the journal of workers and has sent no heartbeat for
//! `record_grace`. The journal is needed because an emptied registry knows of no dead worker.
//!
//! When a queue is deleted, RabbitMQ dead-letters nothing. Messages that the worker held come back to the queue only
//! when the broker notices that the connection is dead. So a dead worker's queue is watched for `worker_grace`, and as
//! long as it has a consumer. Then it is unbound, so that no more messages arrive, drained for the last time, and
//! deleted. A worker that returns in the meantime finds its queue gone, and declares it again.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use thermae_backplane::bus::{Message, QueueSpec};
use thermae_schemas::{WorkerId, names};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::answer::acknowledge;
use crate::context::Context;
use crate::error::Trouble;
use crate::journal::Journal;
use crate::known::Known;

const PREFETCH: u16 = 32;
/// How often to look whether a queue still has a consumer, before it is left alone.
const LOOKS: u32 = 10;

/// The removal of a dead worker's queue, under way.
struct Burial {
    /// Cancelled when the worker is alive after all, and when this scheduler no longer leads.
    alive: CancellationToken,
    over: CancellationToken,
}

/// Runs until this scheduler no longer leads.
pub(crate) async fn run(ctx: Context) {
    let mut notices = ctx.registry.notices();
    // It is enough to read later entries at intervals, because an entry matters only once its worker is dead.
    let written = Known::default();
    if written.read(&ctx, &Journal::workers(), WorkerId::new).await.is_err() || rebind(&ctx, &written).await.is_err() {
        return;
    }
    let (watched, ctx_of_watch) = (written.clone(), ctx.clone());
    ctx.spawn_for_good("journal of workers", async move {
        watched.watch(&ctx_of_watch, &Journal::workers(), WorkerId::new, drop).await;
    });
    let mut missing: HashMap<WorkerId, Instant> = HashMap::new();
    let mut burials: HashMap<WorkerId, Burial> = HashMap::new();
    loop {
        match ctx.registry.dead_workers().await {
            Ok(dead) => {
                let mut dead: BTreeSet<WorkerId> = dead.into_iter().collect();
                let fleet = ctx.fleet.borrow().clone();
                let alive = |worker: &WorkerId| fleet.alive.contains(worker);
                burials.retain(|worker, burial| {
                    // A worker that came back drains its own queue.
                    if alive(worker) && !dead.contains(worker) {
                        burial.alive.cancel();
                    }
                    !(burial.alive.is_cancelled() || burial.over.is_cancelled())
                });
                let unheard: BTreeSet<_> = written.list().into_iter().filter(|worker| !alive(worker)).collect();
                missing.retain(|worker, _| unheard.contains(worker));
                for worker in unheard {
                    let since = *missing.entry(worker.clone()).or_insert_with(Instant::now);
                    if since.elapsed() >= ctx.options.record_grace.duration() {
                        dead.insert(worker);
                    }
                }
                for worker in dead {
                    burials.entry(worker).or_insert_with_key(|worker| begin(&ctx, worker, &written));
                }
                ctx.outages.over();
            }
            Err(error) => ctx.outages.note(&error.into()),
        }
        tokio::select! {
            () = ctx.stop.cancelled() => return,
            () = tokio::time::sleep(ctx.options.tick.duration()) => {}
            () = worker_news(&mut notices) => {}
        }
    }
}

async fn worker_news(notices: &mut tokio::sync::broadcast::Receiver<thermae_backplane::registry::Notice>) {
    use thermae_backplane::registry::Notice;
    use tokio::sync::broadcast::error::RecvError;
    loop {
        match notices.recv().await {
            Ok(Notice::Workers | Notice::Epoch) | Err(RecvError::Lagged(_)) => return,
            Ok(Notice::Credit(_)) => {}
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// A scheduler that ended during a burial may have left a queue unbound, and its worker may have come back since.
async fn rebind(ctx: &Context, written: &Known<WorkerId>) -> Result<(), Trouble> {
    let alive = ctx.fleet.borrow().alive.clone();
    for worker in written.list().into_iter().filter(|worker| alive.contains(worker)) {
        ctx.persist(|| bind(ctx, &worker)).await?;
    }
    Ok(())
}

async fn bind(ctx: &Context, worker: &WorkerId) -> Result<(), Trouble> {
    let queue = QueueSpec::worker(worker);
    if ctx.bus.queue_depth(&queue.name).await?.is_some() {
        ctx.bus.declare_queue(&queue).await?;
    }
    Ok(())
}

fn begin(ctx: &Context, worker: &WorkerId, written: &Known<WorkerId>) -> Burial {
    tracing::warn!(%worker, "the worker is dead; draining its queue");
    let burial = Burial { alive: ctx.stop.child_token(), over: CancellationToken::new() };
    let (alive, over) = (burial.alive.clone(), burial.over.clone().drop_guard());
    let (ctx_of_task, worker, written) = (ctx.clone(), worker.clone(), written.clone());
    ctx.spawn("burial", async move {
        let ctx = ctx_of_task;
        match watch_and_bury(&ctx, &worker, &alive).await {
            Ok(true) => {
                written.remove(&worker);
                tracing::info!(%worker, "the dead worker's queues are deleted");
            }
            Ok(false) => tracing::info!(%worker, "the worker is back"),
            Err(error) => tracing::debug!(%error, %worker, "the dead worker's queues were not deleted"),
        }
        drop(over);
    });
    burial
}

/// Drains a dead worker's queue until the queue may be deleted. `false` if the worker came back before that.
async fn watch_and_bury(ctx: &Context, worker: &WorkerId, alive: &CancellationToken) -> Result<bool, Trouble> {
    loop {
        let until = Instant::now() + ctx.options.worker_grace.duration();
        let drained = tokio::select! {
            () = alive.cancelled() => None,
            drained = ctx.persist(|| drain(ctx, worker, until)) => Some(drained?),
        };
        if drained.is_none() {
            if ctx.stop.is_cancelled() {
                return Err(Trouble::Stopped);
            }
            ctx.persist(|| bind(ctx, worker)).await?;
            return Ok(false);
        }
        if ctx.persist(|| bury(ctx, worker)).await? {
            return Ok(true);
        }
    }
}

/// Deletes a worker's queues, and forgets the worker. `false` if its queue has a consumer. Must not be cancelled
/// half-way.
async fn bury(ctx: &Context, worker: &WorkerId) -> Result<bool, Trouble> {
    let queue = QueueSpec::worker(worker);
    ctx.still_leads().await?;
    ctx.bus.unbind_queue(&queue).await?;
    drain(ctx, worker, Instant::now()).await?;
    let mut looks = 0;
    while ctx.bus.queue_consumers(&queue.name).await?.unwrap_or(0) > 0 {
        looks += 1;
        if looks > LOOKS {
            // The worker lives, and only its connection to the registry is lost.
            ctx.bus.declare_queue(&queue).await?;
            return Ok(false);
        }
        // The broker may not have processed the end of our own consumer yet.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    ctx.still_leads().await?;
    for queue in [queue.name, names::control_queue(worker), names::calls_queue(worker)] {
        ctx.bus.delete_queue(&queue).await?;
    }
    ctx.registry.bury(worker).await?;
    Ok(true)
}

/// Moves all messages to `resolve`, until the moment `until` has passed and the queue is empty.
async fn drain(ctx: &Context, worker: &WorkerId, until: Instant) -> Result<(), Trouble> {
    let queue = names::worker_queue(worker);
    if ctx.bus.queue_depth(&queue).await?.is_none() {
        return Ok(());
    }
    ctx.bus.declare_queue(&QueueSpec::resolve()).await?;
    let mut consumer = ctx.bus.consume(&queue, PREFETCH).await?;
    loop {
        let patience = until.max(Instant::now() + Duration::from_millis(100));
        let Ok(delivery) = tokio::time::timeout_at(patience, consumer.next()).await else {
            // Nothing came in all that time. Anything in the queue would have been delivered.
            if ctx.bus.queue_depth(&queue).await?.unwrap_or(0) == 0 {
                return Ok(());
            }
            continue;
        };
        let Some(delivery) = delivery else { return Ok(()) };
        let message = Message { exchange: names::RESOLVE.to_owned(), ..delivery.message.as_ref().clone() };
        ctx.publish(message).await?;
        acknowledge(&delivery).await;
        ctx.metrics.drained();
    }
}
