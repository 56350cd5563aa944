//! Followers: messages that wait for the outcome of another job (the first one with the same idempotency key), or of
//! their own job, which another client submitted first.

use std::time::{Duration, Instant};

use thermae_backplane::bus::Message;
use thermae_backplane::registry::JobKey;
use thermae_backplane::stored::{Follower, Wanted};
use thermae_schemas::{Body, ErrorCode, ErrorInfo, Event, EventBody, JobId, Outcome, Status, names};
use thermae_service::backoff::Backoff;

use super::{HOLD, forget_death, pause, rotate};
use crate::answer::{Address, Meant, result};
use crate::context::Context;
use crate::error::Trouble;
use crate::lane::Lane;

const FIRST_LOOK: Duration = Duration::from_millis(20);
const SLOWEST_LOOK: Duration = Duration::from_secs(2);

/// Waits for the outcome that the message needs, and sends it.
pub(super) async fn decide(
    ctx: &Context,
    message: &Message,
    lane: &Lane,
    first: &JobId,
) -> Result<&'static str, Trouble> {
    let Some(job) = crate::validate::id_of(message, ctx.options.max_job_bytes.as_u64()) else {
        return Ok("dropped");
    };
    let leader = JobKey::new(lane.tenant.clone(), first.clone());
    let (began, mut looks) = (Instant::now(), Backoff::new(FIRST_LOOK, SLOWEST_LOOK));
    while began.elapsed() < HOLD {
        let Some(record) = ctx.registry.lookup(&leader).await? else {
            return submit_again(ctx, message, lane).await;
        };
        if let Some(ended) = record.ended() {
            let to = Address::of(&lane.tenant, message);
            ctx.charge_again(&lane.tenant, &ended);
            if job == *first {
                ctx.send_recorded(&leader, &to, ended).await?;
                return Ok("followed");
            }
            let digest = crate::head::digest_of(&message.body, ctx.options.max_job_bytes.as_u64());
            if let Some(wanted) = Wanted::new(&leader, &ended) {
                let follower = Follower { job: job.clone(), pool: lane.pool.clone(), digest: digest.clone() };
                if ctx.want(Wanted { follower: Some(follower), ..wanted }, &to).await? {
                    return Ok("followed");
                }
            }
            let outcome = ended.result(first);
            return match Event::parse(&outcome).map(|event| event.body) {
                Ok(EventBody::Result(mut outcome)) => {
                    outcome.duplicate_of = Some(first.to_string());
                    let meant = Meant::Job(digest);
                    ctx.end_unstarted(&JobKey::new(lane.tenant.clone(), job), Some(&lane.pool), outcome, &to, meant)
                        .await?;
                    Ok("followed")
                }
                _ => {
                    tracing::error!(job.id = %first, "a recorded outcome can't be read");
                    Ok("dropped")
                }
            };
        }
        pause(ctx, looks.next_pause()).await?;
    }
    rotate(ctx, message).await
}

/// Refuses a follower for which there is no permit.
pub(super) async fn refuse(ctx: &Context, message: &Message, lane: &Lane) -> Result<&'static str, Trouble> {
    let Some(job) = crate::validate::id_of(message, ctx.options.max_job_bytes.as_u64()) else {
        return Ok("dropped");
    };
    let why =
        "the tenant has too many jobs that wait for the outcome of another job; submit again when some have ended";
    let error = ErrorInfo::new(ErrorCode::QuotaExceeded, why);
    ctx.metrics.rejected(error.code);
    // Nothing is recorded. If the follower waits for its own job, the record also belongs to the client that submitted
    // first.
    let body = result(&job, 0, Outcome::with_error(Status::Rejected, error));
    ctx.send_result(&job, &Address::of(&lane.tenant, message), body).await?;
    Ok("quota")
}

/// The job to follow is forgotten, so this message is submitted again as a first one.
async fn submit_again(ctx: &Context, message: &Message, lane: &Lane) -> Result<&'static str, Trouble> {
    let mut submit =
        Message { exchange: names::SUBMIT.to_owned(), mandatory: true, persistent: true, ..message.clone() };
    submit.headers.0.remove(names::H_FOLLOWS);
    submit.headers.set_flag(names::H_RESEND, true);
    forget_death(&mut submit);
    ctx.vouch(&mut submit, &lane.tenant);
    ctx.publish(submit).await?;
    Ok("submitted_again")
}
