//! Jobs without a session: each gets a slot, a container and a fresh sandbox.

use std::sync::Arc;
use std::time::{Duration, Instant};

use thermae_backplane::bus::Delivery;
use thermae_runner::frames::{End, Place};
use thermae_schemas::{ErrorCode, Outcome};

use super::code::{Ended, Ran, run_code};
use super::prepare::late;
use super::{Seat, claim, conclude, prepare, reject, requeue};
use crate::context::Context;
use crate::phase::Phase;
use crate::pool::{Pool, PooledContainer};
use crate::work::Work;

/// How long a delivery may wait for a slot. This is far below RabbitMQ's timeout for acknowledgements.
const SLOT_WITHIN: Duration = Duration::from_secs(10 * 60);

/// Containers that are tried as long as the runner reports that nothing of the code ran.
const TRIES: u32 = 3;

/// Takes a delivery from a pool's queue through the worker.
// What happens rarely is boxed: a future is as large as its largest branch, and every job's is copied several times.
pub(crate) async fn pool_job(ctx: Arc<Context>, work: Work, delivery: &Delivery) {
    let began = Instant::now();
    let Some(pool) = ctx.pool(&work.job.pool).cloned() else {
        let message = format!("This worker does not serve the pool {}.", work.job.pool);
        let outcome = Outcome::rejected(ErrorCode::UnknownPool, message);
        return Box::pin(reject(&ctx, delivery, &work, outcome)).await;
    };
    let mut prepared = match prepare(&ctx, &work, pool.options()).await {
        Ok(prepared) => prepared,
        Err(outcome) => return Box::pin(reject(&ctx, delivery, &work, outcome)).await,
    };
    ctx.moves(&work, delivery.message.body.len());
    let wait = async {
        pool.traffic().wait_for_allowance(&work.key.tenant).await;
        let permit = Arc::clone(pool.slots()).acquire_owned().await.ok()?;
        Some((permit, take(&ctx, &pool, &work).await?))
    };
    let taken = tokio::select! {
        biased;
        taken = wait => taken,
        () = ctx.draining.cancelled() => return requeue(&ctx, delivery, "draining").await,
        () = tokio::time::sleep(work.time_left().unwrap_or(SLOT_WITHIN).min(SLOT_WITHIN)) => None,
    };
    let Some((permit, mut held)) = taken else {
        return if work.is_late() {
            Box::pin(reject(&ctx, delivery, &work, late())).await;
        } else {
            requeue(&ctx, delivery, "no_container").await;
        };
    };
    ctx.metrics.phase(&work.job.pool, Phase::Acquire, began.elapsed().as_secs_f64());
    if ctx.draining.is_cancelled() {
        return requeue(&ctx, delivery, "draining").await;
    }
    let Some(guard) = claim(&ctx, delivery, &work).await else { return };
    let mut seat = Seat::new(&ctx, &work, delivery, &pool, permit, true);
    let mut tries = 1;
    let ran = loop {
        held.count_job();
        let ran = run_code(&ctx, &work, &guard, &mut prepared, &held.conn(), Place::Fresh, &mut seat).await;
        if !nothing_ran(&ran) || tries == TRIES {
            break ran;
        }
        // The claim is valid and nothing of the code ran, so another container may succeed.
        tries += 1;
        tracing::warn!(container = held.name(), "the sandbox could not be made; trying another container");
        held.quarantine("it could not make a sandbox");
        let next = tokio::select! {
            next = take(&ctx, &pool, &work) => next,
            () = ctx.stop.cancelled() => None,
            _ = guard.lost() => None,
        };
        match next {
            Some(next) => held = next,
            None => {
                drop(seat);
                return conclude(&ctx, delivery, &work, guard, ran, &prepared, None).await;
            }
        }
    };
    // The next job can have the container while this job's outcome is on its way.
    if ran.usable && !nothing_ran(&ran) {
        held.give_back();
    } else {
        held.quarantine("it died, or could not run a job");
    }
    drop(seat);
    conclude(&ctx, delivery, &work, guard, ran, &prepared, None).await;
}

fn nothing_ran(ran: &Ran) -> bool {
    matches!(&ran.ended, Ended::Exit(exit) if matches!(exit.end, End::NotStarted { .. }))
}

#[tracing::instrument(name = "acquire", skip_all)]
async fn take(ctx: &Context, pool: &Arc<Pool>, work: &Work) -> Option<PooledContainer> {
    match pool.acquire(&work.key.tenant).await {
        Ok((held, warmth)) => {
            ctx.metrics.acquired(&work.job.pool, warmth);
            Some(held)
        }
        Err(e) => {
            tracing::warn!(pool = %pool.name(), error = %e, "no container for the job");
            None
        }
    }
}
