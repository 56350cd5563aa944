//! The queue `resolve`: copies of jobs whose fate is unknown. These are jobs that started elsewhere, deliveries that
//! nobody acknowledged, dead letters, and messages from a dead worker's queue. Each copy is held until the job's record
//! is terminal or its lease has passed. Then the job is recorded as lost, or handed out again. Holding one copy holds
//! up no other.
//!
//! Two more kinds of messages are here: submit messages that were dead-lettered before they were admitted, which go
//! back to their lane, and followers, which wait for the outcome of another job.

mod copy;
mod follow;
mod quota;

use std::time::{Duration, Instant};

use thermae_backplane::bus::{Delivery, Message, QueueSpec};
use thermae_backplane::registry::JobKey;
use thermae_schemas::{ErrorCode, ErrorInfo, JobId, PoolName, TenantName, names};

use crate::context::Context;
use crate::error::Trouble;
use crate::lane::Lane;
use crate::serve::{acknowledged, serve};
use crate::validate::Refusal;
use quota::FollowerQuota;

/// Messages held at once. Holding one is cheap. The rest waits in RabbitMQ.
const PREFETCH: u16 = 1024;
/// How often a submit message may be dead-lettered before its job is refused.
const SUBMIT_DEATHS: i64 = 20;
/// How long a message is held before it goes to the end of the queue. RabbitMQ closes channels whose deliveries stay
/// unacknowledged for half an hour. The messages of paused runs, which may stay for a day, must leave room for others
/// long before that.
const HOLD: Duration = Duration::from_secs(60);

/// Runs until this scheduler no longer leads.
pub(crate) async fn run(ctx: Context) {
    let quota = FollowerQuota::default();
    let handle = |delivery: Delivery| async {
        let began = Instant::now();
        let decided = decide(&ctx, &quota, &delivery).await;
        let dealt = decided.map(|decision| ctx.metrics.resolved(decision, began.elapsed()));
        acknowledged(delivery, dealt).await
    };
    serve(&ctx, &QueueSpec::resolve(), PREFETCH, handle).await;
}

/// The kinds of messages on this queue.
enum Kind {
    /// It waits for the outcome of this job.
    Follower(Lane, JobId),
    /// It was dead-lettered before it was admitted.
    Unadmitted(Lane),
    /// A copy of an assigned job.
    Copy(copy::Copy),
    /// It is none of these, for this reason.
    Foreign(&'static str),
}

/// Clients can't write to this queue, but a message of theirs may be dead-lettered to it. So headers count only if the
/// key, or the queue in the broker's own list of deaths, shows that the fleet wrote them.
fn kind(message: &Message) -> Kind {
    let from_submit = message.died_in("submit.")
        || message.headers.text(names::H_DEAD_QUEUE).is_some_and(|queue| queue.starts_with("submit."));
    if let Some(lane) = Lane::parse(&message.key) {
        let follows = message.headers.text(names::H_FOLLOWS).and_then(|id| JobId::new(id).ok());
        return match follows {
            Some(job) => Kind::Follower(lane, job),
            None => Kind::Unadmitted(lane),
        };
    }
    if from_submit {
        return Kind::Foreign("it was submitted under a key that names no queue");
    }
    match copy::Copy::read(message) {
        Some(copy) => Kind::Copy(copy),
        None => Kind::Foreign("it lacks the headers of an assigned job"),
    }
}

/// Reads a message like [`decide`], and does nothing else.
#[cfg(test)]
pub(crate) fn look(message: &Message) {
    let _ = (kind(message), key_of(message), place_of(message));
}

/// Decides about one message. When this returns, the message may be acknowledged.
async fn decide(ctx: &Context, quota: &FollowerQuota, delivery: &Delivery) -> Result<&'static str, Trouble> {
    let message = &delivery.message;
    let kind = kind(message);
    if matches!(kind, Kind::Follower(..) | Kind::Unadmitted(..))
        && let Err(why) = ctx.identity.signer(message)
    {
        ctx.forged(message, &why);
        return Ok("dropped");
    }
    match kind {
        Kind::Copy(copy) => copy.decide(ctx, message).await,
        Kind::Follower(lane, first) => match quota.take(&lane.tenant) {
            Some(_place) => follow::decide(ctx, message, &lane, &first).await,
            None => follow::refuse(ctx, message, &lane).await,
        },
        Kind::Unadmitted(lane) => again(ctx, delivery, lane).await,
        Kind::Foreign(why) => {
            tracing::error!(key = message.key, why, "a message on the resolve queue is dropped");
            Ok("dropped")
        }
    }
}

/// Ends a job that was handed out and has not started. If it may have started, its message goes to the queue `resolve`.
pub(crate) async fn end_unstarted(ctx: &Context, message: &Message, why: ErrorInfo) -> Result<(), Trouble> {
    if let Some(copy) = copy::Copy::read(message)
        && copy.end_unstarted(ctx, why).await?
    {
        return Ok(());
    }
    ctx.publish(Message { exchange: names::RESOLVE.to_owned(), key: String::new(), ..message.clone() }).await
}

/// Sends a message that was never admitted back to its lane, as a new message whose count of deliveries is 0.
async fn again(ctx: &Context, delivery: &Delivery, lane: Lane) -> Result<&'static str, Trouble> {
    let message = &delivery.message;
    let deaths = message.headers.int(names::H_DEATHS).unwrap_or(0).saturating_add(1);
    if deaths > SUBMIT_DEATHS {
        let error = ErrorInfo::new(ErrorCode::DeliveryLimit, "the job was delivered too often without being admitted");
        let job = crate::validate::id_of(message, ctx.options.max_job_bytes.as_u64());
        ctx.refuse(&lane.tenant, Some(&lane.pool), Refusal { job, error }, delivery).await?;
        return Ok("delivery_limit");
    }
    let mut submit =
        Message { exchange: names::SUBMIT.to_owned(), mandatory: true, persistent: true, ..message.as_ref().clone() };
    submit.headers.set_int(names::H_DEATHS, deaths);
    submit.headers.set_flag(names::H_RESEND, true);
    forget_death(&mut submit);
    ctx.vouch(&mut submit, &lane.tenant);
    ctx.publish(submit).await?;
    Ok("submitted_again")
}

/// Removes the headers that the broker added when it dead-lettered the message.
fn forget_death(message: &mut Message) {
    message.headers.0.retain(|name, _| !name.starts_with("x-first-death-") && !name.starts_with("x-last-death-"));
    message.headers.0.remove("x-death");
}

/// Sends a message to the end of the queue.
async fn rotate(ctx: &Context, message: &Message) -> Result<&'static str, Trouble> {
    let mut again = Message { exchange: names::RESOLVE.to_owned(), persistent: true, ..message.clone() };
    if let Ok(tenant) = ctx.identity.signer(message) {
        ctx.vouch(&mut again, &tenant);
    }
    ctx.publish(again).await?;
    Ok("held")
}

/// Sleeps. Ends early when this scheduler no longer leads.
async fn pause(ctx: &Context, time: Duration) -> Result<(), Trouble> {
    tokio::select! {
        () = tokio::time::sleep(time) => Ok(()),
        () = ctx.stop.cancelled() => Err(Trouble::Stopped),
    }
}

/// A job's key, from headers that the fleet wrote.
fn key_of(message: &Message) -> Option<JobKey> {
    let tenant = TenantName::new(message.headers.text(names::H_TENANT)?).ok()?;
    let job = JobId::new(message.message_id.clone()?).ok()?;
    Some(JobKey::new(tenant, job))
}

/// The pool and the version of the protocol that a job names in its body. The routing key of a worker's own queue names
/// neither.
fn place_of(message: &Message) -> Option<(PoolName, u32)> {
    #[derive(serde::Deserialize)]
    struct Placed {
        pool: Option<PoolName>,
        protocol: Option<u32>,
    }
    let Placed { pool, protocol } = serde_json::from_slice(&message.body).ok()?;
    Some((pool.or_else(|| PoolName::new("default").ok())?, protocol.unwrap_or(1)))
}
