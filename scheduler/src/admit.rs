//! Hands out one job: one call of the registry, one confirmed publish, one acknowledgement.

use std::time::{Duration, Instant};

use thermae_backplane::bus::{self, Message, QueueSpec};
use thermae_backplane::record::{EndUnstarted, State};
use thermae_backplane::registry::{self, Admit, Admitted, Epoch, Gone, JobKey, Repeat, SessionAdmit, Target};
use thermae_schemas::{
    Body, ErrorCode, ErrorInfo, Event, EventBody, JobId, Outcome, PoolName, Status, WorkerId, names,
};
use tracing::Instrument;

use crate::age;
use crate::answer::{Address, Meant, acknowledge, give_back};
use crate::context::{self, Context, now_ms};
use crate::error::Trouble;
use crate::fleet::{Candidate, Unserved};
use crate::head::Head;
use crate::work::Assignment;

/// How an attempt to hand out a job ended.
pub(crate) enum End {
    /// The job is on its way to this target.
    Assigned {
        to: Target,
        /// The job had its credit from an earlier hand-out.
        repeat: bool,
        /// The job, if it has a deadline.
        due: Option<Box<HandedOut>>,
    },
    /// The job needed no worker: it was answered, or it is under way already.
    Answered,
    /// The pool's credit was used up. Nothing was changed.
    NoCredit(Head),
    /// The tenant has as many jobs handed out as it may. Nothing was changed.
    TenantBusy(Head),
    /// No worker can take the job's session now. Try again when the fleet has changed. With a worker: the session was
    /// placed on that worker, but its queue doesn't exist.
    Parked(Head, Option<WorkerId>),
    /// The registry is full, and the job has a record, so it may be on its way. It has to wait, but no other job waits
    /// for it.
    RegistryFull(Head),
    /// The registry was away. Nothing is known to have changed.
    RegistryAway(Head),
    /// The job goes back to its queue: the broker was away, or the scheduler stops.
    GivenBack,
    /// The broker had taken the job back, with the connection that brought it. It comes again. The next job may be of a
    /// newer connection.
    TakenBack,
}

/// A job on its way to a worker that must start before its deadline.
pub(crate) struct HandedOut {
    /// In milliseconds since 1970.
    pub(crate) deadline: u64,
    key: JobKey,
    pool: PoolName,
    to: Address,
}

/// What a pool offers to a job.
pub(crate) struct Offer {
    /// The pool's credit: how many of its jobs may be handed out at once. 0 if this job may get no new credit.
    pub(crate) credit: u32,
    /// How many jobs of this tenant the pool may have handed out at once. `None` means without a limit.
    pub(crate) tenant_share: Option<u32>,
    /// The worker for the job's session, if the session is new.
    pub(crate) candidate: Candidate,
}

/// Hands out one job.
pub(crate) async fn assign(ctx: Context, head: Head, offer: Offer) -> End {
    let span = head.span.clone();
    let end = hand_out(&ctx, head, offer).instrument(span).await;
    match &end {
        End::RegistryAway(_) | End::GivenBack | End::TakenBack => {}
        _ => ctx.outages.over(),
    }
    end
}

// What happens rarely is boxed. A future is as large as its largest branch, and every job's is copied several times.
async fn hand_out(ctx: &Context, mut head: Head, offer: Offer) -> End {
    if head.is_late() {
        return Box::pin(refuse(ctx, head, late())).await;
    }
    if !head.delivery.is_current() {
        return End::TakenBack;
    }
    let request = request(ctx, &head, offer);
    let began = Instant::now();
    let admitted = ctx.registry.admit(&request).instrument(tracing::info_span!("admit")).await;
    ctx.metrics.admission(began.elapsed());
    match &admitted {
        // The registry gives these answers only for a job without a record.
        Ok(Admitted::NoCredit | Admitted::TenantBusy) => head.may_have_credit = false,
        Ok(Admitted::Assigned { .. }) | Err(_) => head.may_have_credit = true,
        Ok(_) => {}
    }
    let (attempt, epoch, to, repeat) = match admitted {
        Ok(Admitted::Assigned { attempt, epoch, to, repeat }) => (attempt, epoch, to, repeat),
        Ok(other) => return Box::pin(otherwise(ctx, head, other)).await,
        Err(registry::Error::Full) => return Box::pin(full(ctx, head)).await,
        Err(error @ registry::Error::Corrupt(_)) => {
            tracing::error!(%error, job.id = %head.key.job, "a job's record can't be read");
            let error = ErrorInfo::new(ErrorCode::Internal, "the job's record can't be read");
            let to = Address::of(&head.key.tenant, &head.delivery.message);
            let body = crate::answer::result(&head.key.job, 0, Outcome::with_error(Status::Rejected, error));
            let sent = ctx.send_result(&head.key.job, &to, body).await;
            return done(ctx, &head, sent).await;
        }
        Err(error) => {
            ctx.outages.note(&error.into());
            return End::RegistryAway(head);
        }
    };
    // This process may have been paused in the meantime. Then the broker has taken the job back, and another scheduler
    // may have handed it out. If Redis was emptied since then, the record that was just made proves nothing.
    if !head.delivery.is_current() {
        return End::TakenBack;
    }
    if let Target::Worker { worker, .. } = &to
        && !ctx.fleet.borrow().speaks(worker, head.protocol)
    {
        let error = held_by_older(head.protocol);
        return Box::pin(refuse(ctx, head, error)).await;
    }
    match publish(ctx, &head, attempt, &epoch, &to, repeat).instrument(tracing::info_span!("publish")).await {
        Ok(()) => {
            ctx.metrics.assigned(head.seen.elapsed());
            acknowledge(&head.delivery).await;
            let due = head.deadline.map(|deadline| {
                let to = Address::of(&head.key.tenant, &head.delivery.message);
                Box::new(HandedOut { deadline, key: head.key, pool: head.lane.pool, to })
            });
            End::Assigned { to, repeat, due }
        }
        Err(error) => match (error, to) {
            // The worker is gone and the registry hasn't noticed it yet, or the worker is back and its queue isn't.
            (Trouble::Bus(bus::Error::Unroutable { .. }), Target::Worker { worker, .. }) => {
                End::Parked(head, Some(worker))
            }
            (error, _) => {
                ctx.outages.note(&error);
                give_back(&head.delivery).await;
                End::GivenBack
            }
        },
    }
}

/// Ends a job whose deadline has passed, if it has not started.
pub(crate) async fn end_unstarted(ctx: &Context, job: HandedOut) -> Result<(), Trouble> {
    // Most have ended long ago. A later attempt is no first start, and one that is doubtful may have run.
    let record = ctx.registry.lookup(&job.key).await?;
    if !record.is_some_and(|record| record.state == State::Assigned && record.attempt == 1 && !record.doubtful) {
        return Ok(());
    }
    let outcome = Outcome::with_error(Status::Rejected, late());
    if let EndUnstarted::Won = ctx.end_unstarted(&job.key, Some(&job.pool), outcome, &job.to, Meant::ById).await? {
        ctx.metrics.rejected(ErrorCode::DeadlineExceeded);
    }
    Ok(())
}

fn max_age(ctx: &Context) -> u64 {
    ctx.options.message_max_age.as_millis()
}

fn request(ctx: &Context, head: &Head, offer: Offer) -> Admit {
    let message = &head.delivery.message;
    Admit {
        job: head.key.clone(),
        pool: head.lane.pool.clone(),
        credit: offer.credit,
        tenant_limit: ctx.options.tenant(&head.key.tenant).and_then(|tenant| tenant.max_in_flight),
        tenant_share: offer.tenant_share,
        max_attempts: head.max_attempts,
        reply_key: context::reply_key(&head.key.tenant, message),
        correlation_id: message.correlation_id.clone(),
        digest: head.digest.clone(),
        idempotency_key: head.idempotency_key.clone(),
        session: head.session.as_ref().map(|session| SessionAdmit {
            session: session.id.clone(),
            if_gone: session.if_gone(),
            candidate: offer.candidate,
        }),
        repeat: head.repeat.then(|| Repeat {
            earliest: age::earliest(head.submitted, now_ms(), max_age(ctx)),
            said: head.submitted,
            first_epoch: ctx.first_epoch.get().cloned(),
        }),
        credit_ttl: ctx.options.credit_ttl.duration(),
        ttl: ctx.options.record_ttl.duration(),
    }
}

/// The work message.
fn work(ctx: &Context, head: &Head, attempt: u32, epoch: &Epoch, to: &Target, maybe_duplicate: bool) -> Message {
    let submitted = &head.delivery.message;
    let assignment = Assignment {
        key: &head.key,
        pool: &head.lane.pool,
        protocol: head.protocol,
        to,
        attempt,
        epoch,
        max_attempts: head.max_attempts,
        deadline: head.deadline,
        expires: now_ms().saturating_add(max_age(ctx)),
        maybe_duplicate,
        deaths: 0,
        address: Address::of(&head.key.tenant, submitted),
        trace: thermae_service::trace::forward(&head.span, &context::trace_of(submitted)),
    };
    assignment.message(submitted.body.clone())
}

/// Publishes the work message and waits for its confirm.
async fn publish(
    ctx: &Context,
    head: &Head,
    attempt: u32,
    epoch: &Epoch,
    to: &Target,
    repeat: bool,
) -> Result<(), Trouble> {
    let message = work(ctx, head, attempt, epoch, to, repeat || head.repeat);
    if head.lifecycle {
        accepted(ctx, head, attempt).await?;
    }
    let again = matches!(to, Target::Pool).then(|| message.clone());
    match (ctx.publish(message).await, again) {
        (Err(Trouble::Bus(bus::Error::Unroutable { .. })), Some(message)) => {
            // No worker of this pool has ever run, or somebody deleted the queue.
            ctx.bus.declare_queue(&QueueSpec::pool(&head.lane.pool, head.protocol)).await?;
            ctx.publish(message).await
        }
        (published, _) => published,
    }
}

/// Sends the event `accepted`. Returns when the broker has it, because the work message takes another channel: the
/// worker could get it, and send `started`, before the broker hands this event on.
async fn accepted(ctx: &Context, head: &Head, attempt: u32) -> Result<(), Trouble> {
    let Some(key) = context::reply_key(&head.key.tenant, &head.delivery.message) else { return Ok(()) };
    let event = Event::new(head.key.job.clone(), attempt, EventBody::Accepted {});
    let message = Message {
        exchange: names::REPLIES.to_owned(),
        key,
        body: event.to_json().unwrap_or_default().into(),
        message_id: Some(head.key.job.to_string()),
        correlation_id: head.delivery.message.correlation_id.clone(),
        ..Message::default()
    };
    // It may get lost, and needs no confirm.
    drop(ctx.bus.publish(message).await?);
    ctx.bus.flush().await?;
    Ok(())
}

/// Handles every answer of the registry except "assigned".
async fn otherwise(ctx: &Context, head: Head, admitted: Admitted) -> End {
    let tenant = &head.key.tenant;
    let to = Address::of(tenant, &head.delivery.message);
    match admitted {
        Admitted::NoCredit => End::NoCredit(head),
        Admitted::TenantBusy => End::TenantBusy(head),
        Admitted::NoSessionWorker => End::Parked(head, None),
        Admitted::Terminal(recorded) => {
            ctx.charge_again(tenant, &recorded);
            let sent = ctx.send_recorded(&head.key, &to, recorded).await;
            done(ctx, &head, sent).await
        }
        Admitted::IdConflict => {
            let sent = ctx.send_conflict(&head.key, &to).await;
            done(ctx, &head, sent).await
        }
        Admitted::Lapsed(attempt) => {
            let sent = lapsed(ctx, &head, attempt).await;
            done(ctx, &head, sent).await
        }
        Admitted::UnderWay => {
            let sent = under_way(ctx, &head, &to).await;
            done(ctx, &head, sent).await
        }
        Admitted::DuplicateOf(first) => {
            let sent = follow(ctx, &head, &first).await;
            done(ctx, &head, sent).await
        }
        Admitted::IdempotencyConflict(first) => {
            let why = format!("job {first} used this idempotency key before, and it is a different job");
            refuse(ctx, head, ErrorInfo::new(ErrorCode::IdempotencyConflict, why)).await
        }
        Admitted::SessionGone(gone) => {
            let error = gone_error(gone);
            refuse(ctx, head, error).await
        }
        // The caller handles this one.
        Admitted::Assigned { .. } => End::GivenBack,
    }
}

pub(crate) fn gone_error(gone: Gone) -> ErrorInfo {
    match gone {
        Gone::Expired => ErrorInfo::new(
            ErrorCode::SessionExpired,
            "the session was idle for too long and was closed; its variables are gone. Submit with if_gone \"new\" to \
             start a new one",
        ),
        Gone::Evicted => ErrorInfo::new(
            ErrorCode::SessionEvicted,
            "the session was ended to make room for another one of its tenant; its variables are gone. Submit with \
             if_gone \"new\" to start a new one",
        ),
        Gone::Lost | Gone::Closed => ErrorInfo::new(
            ErrorCode::SessionLost,
            "the session was lost with its worker or sandbox; its variables are gone. Submit with if_gone \"new\" to \
             start a new one",
        ),
    }
}

/// The job has started, but its lease has passed. A copy goes to `resolve`, which decides, because no other copy may be
/// left.
async fn lapsed(ctx: &Context, head: &Head, attempt: u32) -> Result<(), Trouble> {
    let epoch = ctx.registry.epoch().await?;
    let copy = work(ctx, head, attempt, &epoch, &Target::Pool, true);
    ctx.publish(Message { exchange: names::RESOLVE.to_owned(), key: String::new(), ..copy }).await
}

/// The registry is full and takes no new jobs. A job that has a record is left alone: it may be on its way to a worker.
async fn full(ctx: &Context, head: Head) -> End {
    match ctx.registry.lookup(&head.key).await {
        Ok(Some(record)) if record.state == State::Assigned => End::RegistryFull(head),
        Ok(_) => {
            let why = "Redis is full, so the fleet accepts no new jobs; nothing of this job ran";
            refuse(ctx, head, ErrorInfo::new(ErrorCode::RegistryFull, why)).await
        }
        Err(error) => {
            ctx.outages.note(&error.into());
            End::RegistryAway(head)
        }
    }
}

/// The job runs. Its worker answers the client that submitted it first. Any other client gets the outcome from the
/// record.
async fn under_way(ctx: &Context, head: &Head, to: &Address) -> Result<(), Trouble> {
    let first = ctx.registry.lookup(&head.key).await?.and_then(|record| record.reply_key);
    if to.reply_key.is_none() || first == to.reply_key {
        return Ok(());
    }
    follow(ctx, head, &head.key.job).await
}

/// Sends the message to the queue `resolve`, where it waits for the outcome of the job `first`.
async fn follow(ctx: &Context, head: &Head, first: &JobId) -> Result<(), Trouble> {
    let mut message = Message { exchange: names::RESOLVE.to_owned(), ..head.delivery.message.as_ref().clone() };
    message.headers.set_text(names::H_FOLLOWS, first.as_str());
    ctx.vouch(&mut message, &head.key.tenant);
    ctx.publish(message).await
}

pub(crate) fn late() -> ErrorInfo {
    ErrorInfo::new(ErrorCode::DeadlineExceeded, "no worker could start the job before start_within_ms had passed")
}

/// The answer to a job for a session that an older worker holds.
pub(crate) fn held_by_older(protocol: u32) -> ErrorInfo {
    let why = format!(
        "the worker that holds the session does not speak protocol {protocol}; nothing of this job ran. Use a new \
         session, or submit the job without what is new in that protocol"
    );
    ErrorInfo::new(ErrorCode::UnsupportedProtocol, why)
}

/// The answer to a job whose protocol no worker of its pool speaks.
pub(crate) fn unspoken(pool: &PoolName, protocol: u32, since: Duration) -> ErrorInfo {
    let minutes = since.as_secs() / 60;
    let message = format!("no worker of pool {:?} has spoken protocol {protocol} for {minutes} minutes", pool.as_str());
    ErrorInfo::new(ErrorCode::NoWorker, message)
}

/// The answer to a job whose pool no worker serves.
pub(crate) fn unserved(pool: &PoolName, why: Unserved, since: Duration) -> ErrorInfo {
    let minutes = since.as_secs() / 60;
    match why {
        Unserved::NoWorker => {
            let message = format!("no worker has served pool {:?} for {minutes} minutes", pool.as_str());
            ErrorInfo::new(ErrorCode::NoWorker, message)
        }
        Unserved::NoBackend => {
            let message = format!("no worker of pool {:?} could make containers for {minutes} minutes", pool.as_str());
            ErrorInfo::new(ErrorCode::BackendUnavailable, message)
        }
    }
}

/// Rejects a job, and acknowledges its message.
pub(crate) async fn refuse(ctx: &Context, head: Head, error: ErrorInfo) -> End {
    let to = Address::of(&head.key.tenant, &head.delivery.message);
    let sent = ctx.reject(&head.key, &head.lane.pool, error, &to, &head.digest).await;
    done(ctx, &head, sent).await
}

async fn done(ctx: &Context, head: &Head, sent: Result<(), Trouble>) -> End {
    match sent {
        Ok(()) => {
            ctx.charge(&head.key.tenant, head.delivery.message.body.len());
            acknowledge(&head.delivery).await;
            End::Answered
        }
        Err(error) => {
            ctx.outages.note(&error);
            give_back(&head.delivery).await;
            End::GivenBack
        }
    }
}
