//! From the end of a run to the acknowledgement of its delivery: record, publish, acknowledge, in this order.

use thermae_backplane::bus::Delivery;
use thermae_backplane::record::{Answer, Finish};
use thermae_backplane::registry::FinishRequest;
use thermae_runner::frames::Omissions;
use thermae_schemas::{ErrorCode, ErrorInfo, Outcome, SessionState, Status};

use super::code::{Ended, Ran};
use super::prepare::Prepared;
use super::settle::{ack, publish_and_ack, result_of, tell_and_ack, to_resolve};
use crate::artifacts::Gathered;
use crate::context::Context;
use crate::outcome::{About, Told, of_exit, tell, what_is_left};
use crate::phase::Phase;
use crate::running::Guard;
use crate::runs;
use crate::shelf::Large;
use crate::work::Work;

/// Ends an attempt. The job stays in the table of running jobs, and so in the heartbeats, until its outcome is
/// recorded.
pub(crate) async fn conclude(
    ctx: &Context,
    delivery: &Delivery,
    work: &Work,
    guard: Guard,
    ran: Ran,
    prepared: &Prepared,
    session: Option<SessionState>,
) {
    let Ran { ended, mut collected, files, tool_calls, tool_wait, .. } = ran;
    collected.files = match &ended {
        Ended::LeaseLost(_) => Gathered::default(),
        Ended::Exit(exit) => files.finish(exit.left_out.clone()).await,
        _ => files.finish(Omissions::default()).await,
    };
    ctx.metrics.gathered(&collected.files);
    let Prepared { limits, bounds, gate, .. } = prepared;
    let about = About { limits, bounds, worker: &ctx.id, tool_calls, tool_wait, session, notes: gate.notes() };
    let again = work.attempt < work.max_attempts;
    let told = match ended {
        Ended::Exit(exit) => of_exit(exit, collected, about),
        Ended::LeaseLost(lost) => {
            ctx.metrics.leases_lost.with_label_values(&[lost.as_str()]).inc();
            tracing::warn!(why = lost.as_str(), "the lease is lost; the sandbox was killed and nothing is sent");
            drop(guard);
            return to_resolve(ctx, delivery, "lease_lost").await;
        }
        Ended::Gone(_) | Ended::Stopped if again => {
            // The run has ended for sure, so the scheduler can decide at once, and not only when the lease has passed.
            let given_up = ctx.insist("abandon", || ctx.registry.abandon(&work.key, &guard.claim)).await;
            if let Some(Err(e)) = given_up {
                tracing::error!(error = %e, "the attempt can't be given up; its lease will expire");
            }
            drop(guard);
            return to_resolve(ctx, delivery, "again").await;
        }
        Ended::Gone(why) => {
            let message = format!(
                "The container died during the run, and the code may have run in part ({why}). If the code may safely \
                 run twice, set max_attempts above 1."
            );
            tell(Outcome::lost(ErrorCode::SandboxLost, message), None, collected, about)
        }
        Ended::Stopped => {
            let message = "The worker was stopped before the code ended; the code ran in part. If the code may safely \
                           run twice, set max_attempts above 1.";
            tell(Outcome::lost(ErrorCode::WorkerStopped, message), None, collected, about)
        }
        Ended::Cancelled => {
            let mut message = "The job was cancelled while it ran.".to_owned();
            if let Some(session) = &about.session {
                message = format!(
                    "{message} Its container died from that, and the session with it. {}",
                    what_is_left(session)
                );
            }
            let error = ErrorInfo::new(ErrorCode::Cancelled, message);
            tell(Outcome::with_error(Status::Cancelled, error), None, collected, about)
        }
    };
    let status = told.outcome.status;
    tracing::Span::current().record("job.status", status.as_str());
    record(ctx, delivery, work, guard, status, told).await;
}

/// Records an outcome, and publishes the outcome that counts.
#[tracing::instrument(name = "finish", skip_all)]
async fn record(ctx: &Context, delivery: &Delivery, work: &Work, guard: Guard, status: Status, told: Told) {
    let began = std::time::Instant::now();
    let request = FinishRequest {
        job: work.key.clone(),
        pool: work.job.pool.clone(),
        claim: guard.claim.clone(),
        outcome: result_of(work, work.attempt, &told),
        status,
        keep: ctx.options.keep(&work.job.pool),
    };
    drop(told);
    ctx.moves(work, request.outcome.len());
    let finished = ctx.insist("finish", || ctx.registry.finish(&request)).await;
    ctx.metrics.phase(&work.job.pool, Phase::Finish, began.elapsed().as_secs_f64());
    let Answer { what, taker } = match finished {
        None => {
            tracing::error!("the worker ended before the outcome was recorded; the job will count as lost");
            return;
        }
        Some(Ok(answer)) => answer,
        Some(Err(e)) => {
            tracing::error!(error = %e, "the job's record can't be read");
            drop(guard);
            return to_resolve(ctx, delivery, "record_unreadable").await;
        }
    };
    // The question that took the run over may not have come here yet. Nobody else tells the client before.
    if let Some(loser) = taker.and_then(|taker| guard.hand_over(taker)) {
        runs::superseded(ctx, &guard, loser).await;
    }
    let to = guard.address();
    drop(guard);
    match what {
        Finish::Won => {
            ctx.metrics.job(&work.job.pool, status);
            publish_and_ack(ctx, delivery, work, to, request.outcome.clone()).await;
            // The job is over, so this is not on its path.
            ctx.shelf.offer(ctx, Large { job: request.job, outcome: request.outcome, keep: request.keep });
        }
        Finish::Terminal(other) => Box::pin(tell_and_ack(ctx, delivery, work, to, other)).await,
        Finish::Superseded => ack(delivery).await,
    }
}
