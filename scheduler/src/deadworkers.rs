//! Workers that died: what waits in their queues is handed to `resolve`, then the queues are deleted.
//!
//! Deleting a queue dead-letters nothing, and what a worker held unacknowledged comes back only when the broker notices that
//! its connection is dead. So a dead worker's queue is watched for a while before it goes.

use std::collections::HashMap;
use std::time::Duration;

use thermae_backplane::bus::{Message, QueueSpec};
use thermae_schemas::{WorkerId, names};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::answer::acknowledge;
use crate::context::Context;
use crate::error::Trouble;

const PREFETCH: u16 = 32;

/// Runs until this scheduler leads no more.
pub(crate) async fn run(ctx: Context) {
    let mut notices = ctx.registry.notices();
    let mut watched: HashMap<WorkerId, CancellationToken> = HashMap::new();
    loop {
        match ctx.registry.dead_workers().await {
            Ok(dead) => {
                // One that came back drains its own queue.
                watched.retain(|worker, watch| {
                    let still = dead.contains(worker);
                    if !still {
                        watch.cancel();
                    }
                    still
                });
                for worker in dead {
                    watched.entry(worker).or_insert_with_key(|worker| {
                        let watch = ctx.stop.child_token();
                        ctx.tasks.spawn(drain_and_bury(ctx.clone(), worker.clone(), watch.clone()));
                        watch
                    });
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

async fn drain_and_bury(ctx: Context, worker: WorkerId, watch: CancellationToken) {
    tracing::warn!(%worker, "worker is dead: its queue is drained");
    let until = Instant::now() + ctx.options.worker_grace.duration();
    let drained = tokio::select! {
        () = watch.cancelled() => return,
        drained = ctx.persist(|| drain(&ctx, &worker, until)) => drained,
    };
    if drained.is_err() {
        return;
    }
    let buried = ctx.persist(|| async {
        for queue in [names::worker_queue(&worker), names::control_queue(&worker), names::calls_queue(&worker)] {
            ctx.bus.delete_queue(&queue).await?;
        }
        ctx.registry.bury(&worker).await?;
        Ok(())
    });
    tokio::select! {
        () = watch.cancelled() => {}
        buried = buried => match buried {
            Ok(()) => tracing::info!(%worker, "worker is buried"),
            Err(error) => tracing::debug!(%error, %worker, "worker was not buried"),
        },
    }
}

/// Moves everything to `resolve` until the queue was empty and the grace is over.
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
            // Nothing came for as long as we wait: what is there now would have been delivered.
            if ctx.bus.queue_depth(&queue).await?.unwrap_or(0) == 0 {
                return Ok(());
            }
            continue;
        };
        let Some(delivery) = delivery else { return Ok(()) };
        let message = Message { exchange: names::RESOLVE.to_owned(), ..delivery.message.clone() };
        ctx.publish(message).await?;
        acknowledge(&delivery).await;
        ctx.metrics.drained();
    }
}
