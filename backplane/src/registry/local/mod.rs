//! The registry in one process, for the embedded fleet and for tests. Its data ends with the process.
//!
//! Each call takes the lock once, does its steps (those of a job are in [`crate::record`]) and unlocks before it
//! answers. Nothing waits while it holds the lock. The Redis registry does the same with one script for each call.

mod counts;
mod jobs;
mod memory;
mod workers;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use thermae_schemas::{Heartbeat, JobId, PoolName, SessionName, TenantName, WorkerId};
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::{
    Admit, Admitted, Beat, Claim, CountRequest, Counted, EndUnstartedRequest, Epoch, Error, FinishRequest, Gone,
    Holder, JobKey, Notice, Registry, ResolveRequest, ShelveRequest, StartRequest, Usage,
};
use crate::record::{Address, Answer, EndUnstarted, Finish, Millis, Record, Resolve, Start, TakeOver};
use memory::{Memory, millis};

/// How many notices a slow receiver may be behind before it loses some.
const NOTICES: usize = 256;

/// The registry in one process.
pub struct Local {
    memory: Mutex<Memory>,
    notices: broadcast::Sender<Notice>,
    /// The clock: the time since 1970 when this was made, and the runtime's own clock (which tests can pause) since
    /// then.
    made: (Duration, Instant),
}

impl Default for Local {
    fn default() -> Self {
        Self::new()
    }
}

impl Local {
    /// An empty registry that is known to be new, so that nothing can have been lost.
    pub fn new() -> Self {
        Self::with_grace(Duration::ZERO)
    }

    /// An empty registry as after [`Local::empty`]. During `announce_grace`, a session without a record isn't created
    /// again, because its worker may still announce it.
    pub fn with_grace(announce_grace: Duration) -> Self {
        // In this order, the clock is rather ahead of the system's than behind it. If it were behind, a count that was
        // made just before `empty` would seem to be newer.
        let clock = Instant::now();
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let began = if announce_grace.is_zero() { 0 } else { millis(since_1970) };
        Self {
            memory: Mutex::new(Memory::new(began, millis(announce_grace))),
            notices: broadcast::channel(NOTICES).0,
            made: (since_1970, clock),
        }
    }

    /// Loses everything, like a `FLUSHALL`. For tests.
    pub fn empty(&self) {
        let now = self.now();
        {
            let mut memory = self.lock();
            let grace = memory.announce_grace;
            *memory = Memory::new(now, grace);
        }
        let _ = self.notices.send(Notice::Epoch);
    }

    fn now(&self) -> Millis {
        millis(self.made.0 + self.made.1.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        // A panic inside a step would be a bug of ours. A step changes nothing before it has decided.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one step, then sends the notices that it caused.
    fn step<T>(&self, step: impl FnOnce(&mut Memory, Millis) -> T) -> T {
        let now = self.now();
        let (answer, news) = {
            let mut memory = self.lock();
            memory.expire(now);
            (step(&mut memory, now), memory.take_news())
        };
        for notice in news {
            let _ = self.notices.send(notice);
        }
        answer
    }

    /// Runs one step on a job, and adds to its answer who has taken the run over.
    fn about<T>(&self, job: &JobKey, step: impl FnOnce(&mut Memory, Millis) -> T) -> Answer<T> {
        self.step(|memory, now| {
            let what = step(memory, now);
            Answer { what, taker: memory.taker(job) }
        })
    }
}

#[async_trait]
impl Registry for Local {
    async fn epoch(&self) -> Result<Epoch, Error> {
        Ok(self.lock().epoch.clone())
    }

    async fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    async fn admit(&self, admit: &Admit) -> Result<Admitted, Error> {
        Ok(self.step(|memory, now| memory.admit(admit, now)))
    }

    async fn start(&self, start: &StartRequest) -> Result<Answer<Start>, Error> {
        Ok(self.about(&start.job, |memory, now| memory.start(start, now)))
    }

    async fn finish(&self, finish: &FinishRequest) -> Result<Answer<Finish>, Error> {
        Ok(self.about(&finish.job, |memory, now| memory.finish(finish, now)))
    }

    async fn resolve(&self, resolve: &ResolveRequest) -> Result<Answer<Resolve>, Error> {
        Ok(self.about(&resolve.job, |memory, now| memory.resolve(resolve, now)))
    }

    async fn end_unstarted(&self, request: &EndUnstartedRequest) -> Result<Answer<EndUnstarted>, Error> {
        Ok(self.about(&request.job, |memory, now| memory.end_unstarted(request, now)))
    }

    async fn take_over(&self, job: &JobKey, to: &Address) -> Result<TakeOver, Error> {
        Ok(self.step(|memory, now| memory.take_over(job, to, now)))
    }

    async fn abandon(&self, job: &JobKey, claim: &Claim) -> Result<bool, Error> {
        Ok(self.step(|memory, now| memory.abandon(job, claim, now)))
    }

    async fn shelve(&self, shelve: &ShelveRequest) -> Result<bool, Error> {
        Ok(self.step(|memory, now| memory.shelve(shelve, now)))
    }

    async fn count(&self, request: &CountRequest) -> Result<Counted, Error> {
        // Other processes may have counted before this registry was made, also if nothing else can have been lost.
        let count = |memory: &mut Memory, now| memory.counts.take(request, memory.began.max(millis(self.made.0)), now);
        Ok(self.step(count))
    }

    async fn usage(&self) -> Result<Usage, Error> {
        Ok(self.step(|memory, now| Usage { outcomes: memory.spent(now), ..Usage::default() }))
    }

    async fn lookup(&self, job: &JobKey) -> Result<Option<Record>, Error> {
        Ok(self.step(|memory, _| memory.record(job)))
    }

    async fn heartbeat(&self, beat: &Heartbeat, ttl: Duration) -> Result<Beat, Error> {
        Ok(self.step(|memory, now| memory.heartbeat(beat, ttl, now)))
    }

    async fn leave(&self, worker: &WorkerId) -> Result<(), Error> {
        self.step(|memory, now| memory.leave(worker, now));
        Ok(())
    }

    async fn workers(&self) -> Result<Vec<Heartbeat>, Error> {
        Ok(self.step(|memory, now| memory.workers(now)))
    }

    async fn dead_workers(&self) -> Result<Vec<WorkerId>, Error> {
        Ok(self.step(|memory, now| memory.dead_workers(now)))
    }

    async fn bury(&self, worker: &WorkerId) -> Result<(), Error> {
        self.step(|memory, now| memory.bury(worker, now));
        Ok(())
    }

    async fn end_session(
        &self,
        tenant: &TenantName,
        session: &SessionName,
        worker: &WorkerId,
        creator: Option<&JobId>,
        gone: Gone,
    ) -> Result<(), Error> {
        self.step(|memory, now| memory.end_session(tenant, session, worker, creator, gone, now));
        Ok(())
    }

    async fn session_holder(&self, tenant: &TenantName, session: &SessionName) -> Result<Holder, Error> {
        Ok(self.step(|memory, now| memory.session_holder(tenant, session, now)))
    }

    async fn lead(&self, shard: &str, who: &str, ttl: Duration) -> Result<bool, Error> {
        Ok(self.step(|memory, now| memory.lead(shard, who, ttl, now)))
    }

    async fn credit_used(&self, pool: &PoolName) -> Result<u32, Error> {
        Ok(self.step(|memory, now| memory.credit_used(pool, now)))
    }

    fn notices(&self) -> broadcast::Receiver<Notice> {
        self.notices.subscribe()
    }
}
