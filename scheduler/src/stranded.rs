//! Jobs that were handed to a pool whose last worker has gone, or whose last worker that speaks their version of the
//! protocol. They wait in the pool's work queue, where no worker takes them. When new jobs of that pool are rejected
//! because no worker serves them, these jobs are rejected, too.

use std::time::Duration;

use thermae_backplane::bus::Delivery;
use thermae_schemas::{ErrorInfo, OLDEST, PoolName, names};

use crate::answer::{acknowledge, give_back};
use crate::context::Context;
use crate::error::Trouble;
use crate::resolve;

/// Messages taken at once.
const PREFETCH: u16 = 16;
/// A queue counts as empty after this time without a message.
const SILENCE: Duration = Duration::from_millis(100);

/// Runs until this scheduler no longer leads.
pub(crate) async fn run(ctx: Context) {
    while ctx.stop.run_until_cancelled(tokio::time::sleep(ctx.options.tick.duration())).await.is_some() {
        let fleet = ctx.fleet.borrow().clone();
        let queues = fleet.pools.keys().flat_map(|pool| (OLDEST..=fleet.newest).map(move |protocol| (pool, protocol)));
        for (pool, protocol) in queues {
            match drain(&ctx, pool, protocol).await {
                Ok(()) => {}
                Err(Trouble::Stopped) => return,
                Err(error) => ctx.outages.note(&error),
            }
        }
    }
}

/// Why to reject a pool's jobs of this version of the protocol. `None` unless no worker has served them for a long
/// time.
fn unserved(ctx: &Context, pool: &PoolName, protocol: u32) -> Option<ErrorInfo> {
    ctx.fleet.borrow().pools.get(pool)?.refusal(pool, protocol, ctx.options.no_worker_after.duration())
}

/// Rejects the jobs in a work queue of a pool, while no worker serves them.
async fn drain(ctx: &Context, pool: &PoolName, protocol: u32) -> Result<(), Trouble> {
    let queue = names::pool_queue(pool, protocol);
    if unserved(ctx, pool, protocol).is_none() || ctx.bus.queue_depth(&queue).await?.unwrap_or(0) == 0 {
        return Ok(());
    }
    let mut consumer = ctx.bus.consume(&queue, PREFETCH).await?;
    let mut ended = 0;
    while let Ok(Some(delivery)) = tokio::time::timeout(SILENCE, consumer.next()).await {
        match unserved(ctx, pool, protocol) {
            Some(why) => end(ctx, &delivery, why).await?,
            // A worker has come, and the job is for it.
            None => {
                give_back(&delivery).await;
                break;
            }
        }
        ended += 1;
    }
    let _ = consumer.stop().await;
    if ended > 0 {
        tracing::warn!(%pool, ended, "ended jobs that had been handed out to this pool, because no worker serves it");
    }
    Ok(())
}

async fn end(ctx: &Context, delivery: &Delivery, why: ErrorInfo) -> Result<(), Trouble> {
    resolve::end_unstarted(ctx, &delivery.message, why).await?;
    acknowledge(delivery).await;
    Ok(())
}
