//! The registry in Redis (7.0 and later), and [`connect`], which connects a program to RabbitMQ and Redis. Each call of
//! the registry is one script, so it is one step and one round trip.
//!
//! The scripts (`lua/`) do the same steps as [`thermae_backplane::record`] and the in-process registry. The contract
//! suite (`backplane/tests/contract`) runs random histories through both and compares the answers. Leases are measured
//! by Redis's clock. It must be a single Redis (with or without replicas), not a cluster, because the scripts make the
//! keys themselves.

#![forbid(unsafe_code)]

pub mod connect;
#[cfg(test)]
mod hostile;
mod link;
mod options;
mod reply;
mod scripts;
mod seen;
mod wire;

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use redis::{Cmd, Value};
use thermae_backplane::record::{Address, Answer, DIGITS, End, EndUnstarted, Finish, Record, Resolve, Start, TakeOver};
use thermae_backplane::registry::{
    Admit, Admitted, Beat, Budget, Claim, Count, CountRequest, Counted, EndUnstartedRequest, Epoch, Error,
    FinishRequest, Gone, Holder, JobKey, Keep, MOST_COUNTS, Notice, RUNNING_TTL, Registry, ResolveRequest, SESSION_TTL,
    ShelveRequest, StartRequest, Usage, capacity_of,
};
use thermae_schemas::{Heartbeat, IfGone, JobId, PoolName, SessionName, Status, TenantName, WorkerId};
use tokio::sync::broadcast;

use link::Shared;
pub use options::RedisOptions;
use reply::Reply;
use seen::Seen;

/// The registry in Redis.
pub struct Redis {
    shared: Arc<Shared>,
    seen: std::sync::Mutex<Seen>,
}

impl Redis {
    /// Connects. While no Redis answers, it logs this and waits, up to the deadline.
    ///
    /// # Errors
    /// [`Error::Unfit`] at once if the credentials are wrong or the URL is invalid. [`Error::Disconnected`] when the
    /// deadline has passed.
    pub fn connect(options: RedisOptions) -> BoxFuture<'static, Result<Self, Error>> {
        // Boxed here, so that this crate compiles the Redis client, and not each crate that connects.
        Box::pin(async move {
            let shared = Arc::new(Shared::new(options)?);
            let notices = shared.establish(true).await?;
            shared.tasks.spawn(shared.clone().keep(notices));
            Ok(Self { shared, seen: std::sync::Mutex::default() })
        })
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the connections. All later calls fail.
    pub async fn close(&self) {
        self.shared.closed.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.shared.closed.cancel();
    }
}

impl Redis {
    /// Runs a step that may end a job. If Redis is full, the step runs without keeping the outcome.
    async fn end(&self, step: &scripts::Ending, fill: impl Fn(&mut Cmd)) -> Result<Value, Error> {
        match self.shared.call(&step.whole, &fill).await {
            Err(Error::Full) => self.shared.call(&step.bare, &fill).await,
            answer => answer,
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Encodes an optional argument: `''` is none, and `=text` is a text.
fn optional(text: Option<impl std::fmt::Display>) -> String {
    text.map_or_else(String::new, |text| format!("={text}"))
}

fn with_job<'a>(to: &'a mut Cmd, job: &JobKey) -> &'a mut Cmd {
    to.arg(job.tenant.as_str()).arg(job.job.as_str())
}

/// Adds the arguments of an outcome to record.
fn with_end<'a>(to: &'a mut Cmd, outcome: &Bytes, status: Status, keep: &Keep) -> &'a mut Cmd {
    let end = End { outcome: outcome.clone(), status };
    to.arg(&outcome[..]).arg(end.mark()).arg(status.as_str()).arg(keep.cost(outcome.len()))
}

fn with_keep<'a>(to: &'a mut Cmd, keep: &Keep) -> &'a mut Cmd {
    let Budget { tenant, all } = keep.budget;
    to.arg(millis(keep.outcome())).arg(millis(keep.record)).arg(tenant).arg(all)
}

fn with_claim<'a>(to: &'a mut Cmd, claim: &Claim) -> &'a mut Cmd {
    to.arg(claim.attempt).arg(claim.owner.as_str()).arg(&claim.nonce)
}

fn names(value: Value) -> Result<Vec<String>, Error> {
    redis::from_redis_value(value).map_err(|error| Error::Corrupt(error.to_string()))
}

#[async_trait]
impl Registry for Redis {
    async fn epoch(&self) -> Result<Epoch, Error> {
        self.shared.epoch().await
    }

    async fn check(&self) -> Result<(), Error> {
        Shared::fitness(&self.shared.info().await?)?;
        self.shared.call(&scripts::CHECK, |_| {}).await.map(drop)
    }

    async fn admit(&self, admit: &Admit) -> Result<Admitted, Error> {
        let (session, repeat) = (admit.session.as_ref(), admit.repeat.as_ref());
        let if_gone = match session.map(|session| session.if_gone) {
            Some(IfGone::New) => "new",
            _ => "fail",
        };
        let answer = self.shared.call(&scripts::ADMIT, |to| {
            with_job(to, &admit.job)
                .arg(admit.pool.as_str())
                .arg(admit.credit)
                .arg(optional(admit.tenant_limit))
                .arg(admit.max_attempts)
                .arg(optional(admit.reply_key.as_ref()))
                .arg(optional(admit.correlation_id.as_ref()))
                .arg(&admit.digest)
                .arg(optional(admit.idempotency_key.as_ref()))
                .arg(optional(session.map(|session| &session.session)))
                .arg(if_gone)
                .arg(optional(session.and_then(|session| session.candidate.as_ref())))
                .arg(optional(repeat.map(|repeat| repeat.earliest)))
                .arg(millis(admit.credit_ttl))
                .arg(millis(admit.ttl))
                .arg(millis(self.shared.options.announce_grace))
                .arg(millis(SESSION_TTL))
                .arg(optional(repeat.and_then(|repeat| repeat.said)))
                .arg(optional(repeat.and_then(|repeat| repeat.first_epoch.as_ref()).map(|epoch| &epoch.0)))
                .arg(optional(admit.tenant_share));
        });
        reply::admitted(answer.await?)
    }

    async fn start(&self, start: &StartRequest) -> Result<Answer<Start>, Error> {
        let answer = self.shared.call(&scripts::START, |to| {
            with_claim(with_job(to, &start.job).arg(start.pool.as_str()), &start.claim)
                .arg(&start.epoch.0)
                .arg(u8::from(start.only_copy))
                .arg(start.max_attempts)
                .arg(optional(start.reply_key.as_ref()))
                .arg(optional(start.correlation_id.as_ref()))
                .arg(millis(start.lease))
                .arg(millis(start.ttl));
        });
        reply::start(answer.await?)
    }

    async fn finish(&self, finish: &FinishRequest) -> Result<Answer<Finish>, Error> {
        let answer = self.end(&scripts::FINISH, |to| {
            with_claim(with_job(to, &finish.job).arg(finish.pool.as_str()), &finish.claim);
            with_keep(with_end(to, &finish.outcome, finish.status, &finish.keep), &finish.keep);
        });
        reply::finish(answer.await?)
    }

    async fn resolve(&self, resolve: &ResolveRequest) -> Result<Answer<Resolve>, Error> {
        let keep = &resolve.keep;
        let answer = self.end(&scripts::RESOLVE, |to| {
            with_job(to, &resolve.job).arg(resolve.pool.as_str()).arg(resolve.attempt).arg(resolve.max_attempts);
            with_end(to, &resolve.lost, Status::Lost, keep);
            with_end(to, &resolve.cancelled, Status::Cancelled, keep).arg(millis(resolve.grace));
            with_keep(to, keep);
        });
        reply::resolve(answer.await?)
    }

    async fn end_unstarted(&self, request: &EndUnstartedRequest) -> Result<Answer<EndUnstarted>, Error> {
        let answer = self.end(&scripts::END_UNSTARTED, |to| {
            with_job(to, &request.job).arg(optional(request.pool.as_ref()));
            with_end(to, &request.outcome, request.status, &request.keep)
                .arg(request.digest.as_deref().unwrap_or_default())
                .arg(u8::from(request.cancel));
            with_keep(to, &request.keep);
        });
        reply::end_unstarted(answer.await?)
    }

    async fn take_over(&self, job: &JobKey, to: &Address) -> Result<TakeOver, Error> {
        let answer = self.shared.call(&scripts::TAKE_OVER, |cmd| {
            with_job(cmd, job).arg(&to.reply_key).arg(optional(to.correlation_id.as_ref()));
        });
        reply::take_over(answer.await?)
    }

    async fn abandon(&self, job: &JobKey, claim: &Claim) -> Result<bool, Error> {
        let answer = self.shared.call(&scripts::ABANDON, |to| {
            with_claim(with_job(to, job), claim);
        });
        Ok(answer.await? == Value::Int(1))
    }

    async fn shelve(&self, shelve: &ShelveRequest) -> Result<bool, Error> {
        let ShelveRequest { job, digest, bytes, keep } = shelve;
        let answer = self.shared.call(&scripts::SHELVE, |to| {
            let mark = digest.get(..DIGITS).unwrap_or(digest);
            with_job(to, job).arg(mark).arg(digest).arg(millis(keep.outcome())).arg(keep.cost(*bytes));
        });
        Ok(answer.await? == Value::Int(1))
    }

    async fn count(&self, request: &CountRequest) -> Result<Counted, Error> {
        let answer = self.shared.call(&scripts::COUNT, |to| {
            to.arg(request.tenant.as_str()).arg(MOST_COUNTS);
            for Count { name, made, until, most } in &request.counts {
                to.arg(name).arg(made.saturating_sub(millis(request.skew))).arg(until).arg(most);
            }
        });
        reply::counted(answer.await?)
    }

    async fn usage(&self) -> Result<Usage, Error> {
        let (memory, memory_max) = link::memory(&self.shared.info().await?);
        let outcomes = match self.shared.call(&scripts::SPENT, |_| {}).await? {
            Value::Int(bytes) => u64::try_from(bytes).unwrap_or(0),
            other => return Err(Error::Corrupt(format!("a count of {other:?}"))),
        };
        Ok(Usage { memory, memory_max, outcomes })
    }

    async fn lookup(&self, job: &JobKey) -> Result<Option<Record>, Error> {
        let answer = self.shared.call(&scripts::LOOKUP, |to| {
            with_job(to, job);
        });
        reply::record(answer.await?)
    }

    async fn heartbeat(&self, beat: &Heartbeat, ttl: Duration) -> Result<Beat, Error> {
        let json = serde_json::to_string(beat).map_err(|error| Error::Corrupt(error.to_string()))?;
        let capacity = capacity_of(beat);
        let answer = self.shared.call(&scripts::HEARTBEAT, |to| {
            to.arg(beat.worker.as_str())
                .arg(millis(ttl))
                .arg(&json)
                .arg(&capacity)
                .arg(millis(RUNNING_TTL))
                .arg(millis(SESSION_TTL))
                .arg(beat.running.len());
            for running in &beat.running {
                to.arg(running.tenant.as_str()).arg(running.job.as_str());
                to.arg(running.attempt).arg(&running.nonce).arg(running.pool.as_str()).arg(u8::from(running.paused));
            }
            for held in &beat.sessions {
                to.arg(held.tenant.as_str()).arg(held.session.as_str());
            }
        });
        let mut reply = Reply::new(answer.await?)?;
        let epoch = Epoch(reply.text()?);
        let revoked = reply.rest()?.into_iter().filter_map(|place| {
            let running = beat.running.get(usize::try_from(place).ok()?.checked_sub(1)?)?;
            Some(JobKey::new(running.tenant.clone(), running.job.clone()))
        });
        Ok(Beat { epoch, revoked: revoked.collect() })
    }

    async fn leave(&self, worker: &WorkerId) -> Result<(), Error> {
        let call = self.shared.call(&scripts::LEAVE, |to| {
            to.arg(worker.as_str()).arg(millis(SESSION_TTL));
        });
        call.await.map(drop)
    }

    async fn workers(&self) -> Result<Vec<Heartbeat>, Error> {
        // The second round asks for all workers. If even that misses one, the worker came or left in between.
        for _ in 0..2 {
            let (epoch, number) = {
                let seen = self.seen();
                let (epoch, number) = seen.since();
                (epoch.to_owned(), number)
            };
            let call = self.shared.call(&scripts::WORKERS, |to| {
                to.arg("alive").arg(&epoch).arg(number);
            });
            let answer = call.await?;
            if self.seen().take((&epoch, number), answer)? {
                break;
            }
        }
        Ok(self.seen().workers())
    }

    fn unreadable_workers(&self) -> Vec<WorkerId> {
        self.seen().unreadable()
    }

    async fn dead_workers(&self) -> Result<Vec<WorkerId>, Error> {
        let call = self.shared.call(&scripts::WORKERS, |to| {
            to.arg("dead");
        });
        let mut found: Vec<WorkerId> = names(call.await?)?
            .into_iter()
            // An invalid name can't have a queue.
            .filter_map(|name| WorkerId::new(name).ok())
            .collect();
        found.sort();
        Ok(found)
    }

    async fn bury(&self, worker: &WorkerId) -> Result<(), Error> {
        let call = self.shared.call(&scripts::BURY, |to| {
            to.arg(worker.as_str()).arg(millis(SESSION_TTL));
        });
        call.await.map(drop)
    }

    async fn end_session(
        &self,
        tenant: &TenantName,
        session: &SessionName,
        worker: &WorkerId,
        creator: Option<&JobId>,
        gone: Gone,
    ) -> Result<(), Error> {
        let call = self.shared.call(&scripts::END_SESSION, |to| {
            to.arg(tenant.as_str()).arg(session.as_str()).arg(worker.as_str());
            to.arg(reply::gone_word(gone)).arg(millis(SESSION_TTL)).arg(optional(creator));
        });
        call.await.map(drop)
    }

    async fn session_holder(&self, tenant: &TenantName, session: &SessionName) -> Result<Holder, Error> {
        let call = self.shared.call(&scripts::SESSION_HOLDER, |to| {
            to.arg(tenant.as_str()).arg(session.as_str()).arg(millis(self.shared.options.announce_grace));
        });
        reply::holder(call.await?)
    }

    async fn lead(&self, shard: &str, who: &str, ttl: Duration) -> Result<bool, Error> {
        let call = self.shared.call(&scripts::LEAD, |to| {
            to.arg(shard).arg(who).arg(millis(ttl));
        });
        Ok(call.await? == Value::Int(1))
    }

    async fn credit_used(&self, pool: &PoolName) -> Result<u32, Error> {
        let call = self.shared.call(&scripts::CREDIT, |to| {
            to.arg(pool.as_str());
        });
        match call.await? {
            Value::Int(n) => Ok(u32::try_from(n).unwrap_or(u32::MAX)),
            other => Err(Error::Corrupt(format!("a count of {other:?}"))),
        }
    }

    fn notices(&self) -> broadcast::Receiver<Notice> {
        self.shared.notices.subscribe()
    }
}
