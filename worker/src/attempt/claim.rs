//! The fence: no code runs before the registry has moved the job's record to *started*.

use thermae_backplane::bus::Delivery;
use thermae_backplane::record::{Answer, Start};
use thermae_backplane::registry::{Claim, StartRequest};

use super::settle::{ack, tell_and_ack, to_resolve};
use crate::clock::Moment;
use crate::context::Context;
use crate::phase::Phase;
use crate::running::Guard;
use crate::work::Work;

/// Claims the start of a job. `None` if the job must not run here. Its delivery is then settled, unless the worker gave
/// up.
#[tracing::instrument(name = "start", skip_all)]
pub(crate) async fn claim(ctx: &Context, delivery: &Delivery, work: &Work) -> Option<Guard> {
    let claim =
        Claim { attempt: work.attempt, owner: ctx.id.clone(), nonce: uuid::Uuid::new_v4().simple().to_string() };
    let Some(guard) = ctx.table.enter(&work.key, &work.job.pool, claim.clone(), work.submitter.clone()) else {
        // A second copy of a job that is under way here: the connection was lost, and the broker delivered the job
        // again.
        to_resolve(ctx, delivery, "copy").await;
        return None;
    };
    let request = StartRequest {
        job: work.key.clone(),
        pool: work.job.pool.clone(),
        claim,
        epoch: work.epoch.clone(),
        only_copy: work.only_copy,
        max_attempts: work.max_attempts,
        reply_key: work.submitter.as_ref().map(|to| to.reply_key.clone()),
        correlation_id: work.submitter.as_ref().and_then(|to| to.correlation_id.clone()),
        lease: ctx.options.lease.0,
        ttl: ctx.options.record_ttl.0,
    };
    // Measured from before the request, so that the lease is never longer than the registry's own.
    let mut asked = Moment::now();
    let answer = ctx
        .insist("start", || {
            asked = Moment::now();
            // The delivery may have come long ago. If the broker has taken it back since then, another worker has a
            // copy.
            let request = StartRequest { only_copy: work.only_copy && delivery.is_current(), ..request.clone() };
            async move { ctx.registry.start(&request).await }
        })
        .await?;
    ctx.metrics.phase(&work.job.pool, Phase::Start, asked.elapsed().as_secs_f64());
    let Answer { what, taker } = match answer {
        Ok(answer) => answer,
        Err(e) => {
            tracing::error!(error = %e, "the job's record can't be read");
            to_resolve(ctx, delivery, "record_unreadable").await;
            return None;
        }
    };
    if let Some(taker) = taker {
        // Whoever saw to it that the run was taken over has told the client before.
        let _ = guard.hand_over(taker);
    }
    match what {
        Start::Go => {
            guard.stands_until(asked + ctx.options.lease.0);
            return Some(guard);
        }
        Start::Terminal(ended) => Box::pin(tell_and_ack(ctx, delivery, work, guard.address(), ended)).await,
        Start::Stale => ack(delivery).await,
        Start::Resolve => to_resolve(ctx, delivery, "maybe_started").await,
    }
    None
}
