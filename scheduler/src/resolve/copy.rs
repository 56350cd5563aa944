//! A copy of an assigned job. The job's record decides what happens to it.

use std::time::Instant;

use thermae_backplane::bus::{self, Message, QueueSpec};
use thermae_backplane::record::{Answer, EndUnstarted, Record, Resolve, State};
use thermae_backplane::registry::{Admit, Admitted, JobKey, ResolveRequest, SessionAdmit, Target};
use thermae_schemas::{Body, ErrorCode, ErrorInfo, Job, Outcome, PoolName, Status, names};
use tracing::Instrument;

use super::{HOLD, key_of, pause, place_of, rotate};
use crate::answer::{Address, Meant, result};
use crate::context::{self, Context, Name};
use crate::error::Trouble;
use crate::work::Assignment;

/// How often RabbitMQ's delivery limit may dead-letter a job that never starts, before the job is given up.
const DEATHS: i64 = 3;

/// A copy, read from its message.
pub(super) struct Copy {
    key: JobKey,
    pool: PoolName,
    protocol: u32,
    attempt: u32,
    max_attempts: u32,
    deaths: i64,
    /// RabbitMQ moved it here at the delivery limit. `false` if a worker or the scheduler sent it.
    dead_letter: bool,
    to: Address,
    /// No worker starts the job from this message after this time, in milliseconds since 1970.
    expires: Option<u64>,
}

impl Copy {
    /// `None` if the headers of an assigned job are missing.
    pub(super) fn read(message: &Message) -> Option<Self> {
        let headers = &message.headers;
        let number = |name: &str| headers.int(name).and_then(|n| u32::try_from(n).ok());
        let (pool, protocol) = place_of(message)?;
        let dead_letter = headers.text(names::H_DEAD_REASON).is_some();
        Some(Self {
            key: key_of(message)?,
            pool,
            protocol,
            attempt: number(names::H_ATTEMPT)?,
            max_attempts: number(names::H_MAX_ATTEMPTS).unwrap_or(1),
            deaths: headers.int(names::H_DEATHS).unwrap_or(0).saturating_add(dead_letter.into()),
            dead_letter,
            expires: headers.int(names::H_EXPIRES).and_then(|ms| u64::try_from(ms).ok()),
            to: Address { reply_key: message.reply_to.clone(), correlation_id: message.correlation_id.clone() },
        })
    }

    pub(super) async fn decide(self, ctx: &Context, message: &Message) -> Result<&'static str, Trouble> {
        let span = context::span(Name::Resolve, &self.key, message);
        let began = Instant::now();
        let outer = span.clone();
        async {
            if self.is_expired()
                && let Some(decision) = self.expire(ctx).await?
            {
                return Ok(decision);
            }
            while began.elapsed() < HOLD {
                let cancelled = self.cancelled();
                let (lost, why) = self.lost(ctx.registry.lookup(&self.key).await?.as_ref());
                let request = ResolveRequest {
                    job: self.key.clone(),
                    pool: self.pool.clone(),
                    attempt: self.attempt,
                    max_attempts: self.max_attempts,
                    lost: lost.clone(),
                    cancelled: cancelled.clone(),
                    grace: ctx.options.record_grace.duration(),
                    keep: ctx.options.keep(Some(&self.pool)),
                };
                let Answer { what, taker } = ctx.registry.resolve(&request).await?;
                let to = self.to.or_taker(taker);
                match what {
                    Resolve::Terminal(recorded) => {
                        ctx.send_recorded(&self.key, &to, recorded).await?;
                        return Ok("terminal");
                    }
                    Resolve::Cancelled => {
                        self.end_of_run(ctx, &to, cancelled).await?;
                        return Ok("cancelled");
                    }
                    Resolve::Lost => {
                        tracing::warn!(job.id = %self.key.job, tenant = %self.key.tenant, code = why.as_str(), "job is lost");
                        self.end_of_run(ctx, &to, lost).await?;
                        return Ok("lost");
                    }
                    Resolve::Stale => return Ok("stale"),
                    Resolve::Reassign(attempt) => match self.reassign(ctx, message, attempt, &span).await? {
                        Some(decision) => return Ok(decision),
                        None => pause(ctx, ctx.options.tick.duration()).await?,
                    },
                    Resolve::Hold(time) => pause(ctx, time.min(HOLD)).await?,
                }
            }
            rotate(ctx, message).await
        }
        .instrument(outer)
        .await
    }

    /// Sends the outcome of a job whose worker is gone. If the run was taken over, that worker may not have told the
    /// client that submitted the job.
    async fn end_of_run(&self, ctx: &Context, to: &Address, outcome: bytes::Bytes) -> Result<(), Trouble> {
        if to.reply_key != self.to.reply_key {
            ctx.send_superseded(&self.key.job, self.attempt, &self.to).await?;
        }
        ctx.send_result(&self.key.job, to, outcome).await
    }

    /// The outcome to record if the job is lost.
    fn lost(&self, record: Option<&Record>) -> (bytes::Bytes, ErrorCode) {
        let (code, text) = match record.map(|record| &record.state) {
            _ if self.dead_letter => (
                ErrorCode::DeliveryLimit,
                "the job was handed out too many times without ending; it may have run".to_owned(),
            ),
            Some(State::Started { owner, .. }) => {
                let text = format!(
                    "worker {owner} died or could not be reached while it ran the job; the job may have run in part"
                );
                (ErrorCode::WorkerLost, text)
            }
            Some(_) => (ErrorCode::WorkerLost, "the worker that had the job died; it may have run".to_owned()),
            None => (
                ErrorCode::RecordLost,
                "the records were lost while the job was under way; the job may have run".to_owned(),
            ),
        };
        (result(&self.key.job, self.attempt, Outcome::lost(code, text)), code)
    }

    /// The outcome to record if the client has cancelled the job.
    fn cancelled(&self) -> bytes::Bytes {
        let why = "the job was cancelled while it ran, and its worker died or gave it up; the job may have run in part";
        let error = ErrorInfo::new(ErrorCode::Cancelled, why);
        result(&self.key.job, self.attempt, Outcome::with_error(Status::Cancelled, error))
    }

    /// Whether the message is so old that the job's record may be forgotten.
    fn is_expired(&self) -> bool {
        self.expires.is_some_and(|at| at <= context::now_ms())
    }

    /// Ends a job whose message is too old, unless the job runs.
    async fn expire(&self, ctx: &Context) -> Result<Option<&'static str>, Trouble> {
        let why = "the job waited for longer than message_max_age; it was not started from this message";
        Ok(self.end(ctx, ErrorInfo::new(ErrorCode::SubmissionExpired, why)).await?.map(|_| "expired"))
    }

    /// Hands the job out again. `None` if that must wait.
    async fn reassign(
        &self,
        ctx: &Context,
        message: &Message,
        attempt: u32,
        span: &tracing::Span,
    ) -> Result<Option<&'static str>, Trouble> {
        if self.deaths > DEATHS {
            let why = "the job was handed out too many times without starting";
            return self.end(ctx, ErrorInfo::new(ErrorCode::DeliveryLimit, why)).await;
        }
        let to = match self.target(ctx, message).await? {
            Ok(to) => to,
            Err(Some(error)) => return self.end(ctx, error).await,
            Err(None) => return Ok(None),
        };
        let deadline = message.headers.int(names::H_DEADLINE).and_then(|ms| u64::try_from(ms).ok());
        let assignment = Assignment {
            key: &self.key,
            pool: &self.pool,
            protocol: self.protocol,
            to: &to,
            attempt,
            epoch: &ctx.registry.epoch().await?,
            max_attempts: self.max_attempts,
            deadline,
            expires: context::now_ms().saturating_add(ctx.options.message_max_age.as_millis()),
            maybe_duplicate: true,
            deaths: self.deaths,
            address: self.to.clone(),
            trace: thermae_service::trace::forward(span, &context::trace_of(message)),
        };
        let work = assignment.message(message.body.clone());
        match ctx.publish(work.clone()).await {
            Err(Trouble::Bus(bus::Error::Unroutable { .. })) if to == Target::Pool => {
                ctx.bus.declare_queue(&QueueSpec::pool(&self.pool, self.protocol)).await?;
                ctx.publish(work).await?;
            }
            Err(Trouble::Bus(bus::Error::Unroutable { .. })) => return Ok(None),
            sent => sent?,
        }
        Ok(Some("reassigned"))
    }

    /// Where the job goes now. For a job with a session, only an admission can tell.
    async fn target(&self, ctx: &Context, message: &Message) -> Result<Result<Target, Option<ErrorInfo>>, Trouble> {
        let session = Job::parse(&message.body).ok().and_then(|job| job.session);
        let Some(session) = session else { return Ok(Ok(Target::Pool)) };
        let (credit, candidate) = match ctx.fleet.borrow().pools.get(&self.pool) {
            Some(view) => (view.credit, view.session_workers.best(self.protocol, &self.key.tenant).cloned()),
            None => (0, None),
        };
        let admit = Admit {
            job: self.key.clone(),
            pool: self.pool.clone(),
            credit,
            tenant_limit: None,
            tenant_share: None,
            max_attempts: self.max_attempts,
            reply_key: self.to.reply_key.clone(),
            correlation_id: self.to.correlation_id.clone(),
            digest: String::new(),
            idempotency_key: None,
            session: Some(SessionAdmit { if_gone: session.if_gone(), session: session.id, candidate }),
            repeat: None,
            credit_ttl: ctx.options.credit_ttl.duration(),
            ttl: ctx.options.record_ttl.duration(),
        };
        Ok(match ctx.registry.admit(&admit).await? {
            Admitted::Assigned { to: Target::Worker { worker, .. }, .. }
                if !ctx.fleet.borrow().speaks(&worker, self.protocol) =>
            {
                Err(Some(crate::admit::held_by_older(self.protocol)))
            }
            Admitted::Assigned { to, .. } => Ok(to),
            Admitted::SessionGone(gone) => Err(Some(crate::admit::gone_error(gone))),
            // The record has changed in the meantime, or no worker can take the job now: ask again.
            _ => Err(None),
        })
    }

    /// Ends a job whose record shows that the last attempt has not started. `false` if the record shows anything else.
    pub(super) async fn end_unstarted(&self, ctx: &Context, error: ErrorInfo) -> Result<bool, Trouble> {
        let Some(record) = ctx.registry.lookup(&self.key).await? else { return Ok(false) };
        if record.state != State::Assigned || record.doubtful {
            return Ok(false);
        }
        let outcome = match record.attempt {
            1 => Outcome::with_error(Status::Rejected, error),
            _ => {
                let why =
                    format!("an earlier attempt may have run, and another one could not be made: {}", error.message);
                Outcome::lost(ErrorCode::WorkerLost, why)
            }
        };
        Ok(self.end_with(ctx, outcome).await?.is_some())
    }

    /// Ends a job that never started. `None` if it runs.
    async fn end(&self, ctx: &Context, error: ErrorInfo) -> Result<Option<&'static str>, Trouble> {
        self.end_with(ctx, Outcome::with_error(Status::Rejected, error)).await
    }

    async fn end_with(&self, ctx: &Context, outcome: Outcome) -> Result<Option<&'static str>, Trouble> {
        if let Some(error) = outcome.error.as_ref().filter(|_| outcome.status == Status::Rejected) {
            ctx.metrics.rejected(error.code);
        }
        match ctx.end_unstarted(&self.key, Some(&self.pool), outcome, &self.to, Meant::ById).await? {
            EndUnstarted::Won | EndUnstarted::Terminal(_) | EndUnstarted::Conflict => Ok(Some("rejected")),
            EndUnstarted::Started { .. } => Ok(None),
        }
    }
}
