//! A registry whose faults the test controls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use thermae_backplane::record::{Address, Answer, EndUnstarted, Finish, Record, Resolve, Start, TakeOver};
use thermae_backplane::registry::{
    Admit, Admitted, Beat, Claim, CountRequest, Counted, EndUnstartedRequest, Epoch, Error, FinishRequest, Gone,
    Holder, JobKey, Local, Notice, Registry, ResolveRequest, ShelveRequest, StartRequest, Usage,
};
use thermae_schemas::{Heartbeat, JobId, PoolName, SessionName, TenantName, WorkerId};
use tokio::sync::{Mutex, broadcast};

/// A registry that panics, fails or waits when the test says so.
#[derive(Default)]
pub(crate) struct Faulty {
    pub(crate) inner: Arc<Local>,
    /// How many of the next admissions panic.
    pub(crate) admissions: AtomicU32,
    /// How many of the next admissions are made, but not answered, as if the connection had just been lost.
    pub(crate) unanswered: AtomicU32,
    /// How many of the next calls of `dead_workers` panic.
    pub(crate) looks: AtomicU32,
    /// Refuses new jobs, like a Redis that has reached its `maxmemory`.
    pub(crate) full: AtomicBool,
    /// Fails to read the workers.
    pub(crate) corrupt: AtomicBool,
    /// While the test holds this, admissions and claims of the lead wait.
    pub(crate) gate: Mutex<()>,
    /// How many admissions there were.
    pub(crate) asked: AtomicU32,
}

/// Counts down. `false` if the count was 0.
pub(crate) fn count_down(left: &AtomicU32) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok()
}

/// Counts down, and panics unless the count was 0.
fn trip(left: &AtomicU32) {
    assert!(!count_down(left), "injected by the test");
}

#[async_trait]
impl Registry for Faulty {
    async fn epoch(&self) -> Result<Epoch, Error> {
        self.inner.epoch().await
    }
    async fn check(&self) -> Result<(), Error> {
        self.inner.check().await
    }
    async fn admit(&self, admit: &Admit) -> Result<Admitted, Error> {
        trip(&self.admissions);
        self.asked.fetch_add(1, Ordering::SeqCst);
        drop(self.gate.lock().await);
        if self.full.load(Ordering::SeqCst) {
            return Err(Error::Full);
        }
        let admitted = self.inner.admit(admit).await;
        if count_down(&self.unanswered) {
            return Err(Error::Disconnected("injected by the test".to_owned()));
        }
        admitted
    }
    async fn start(&self, start: &StartRequest) -> Result<Answer<Start>, Error> {
        self.inner.start(start).await
    }
    async fn finish(&self, finish: &FinishRequest) -> Result<Answer<Finish>, Error> {
        self.inner.finish(finish).await
    }
    async fn resolve(&self, resolve: &ResolveRequest) -> Result<Answer<Resolve>, Error> {
        self.inner.resolve(resolve).await
    }
    async fn end_unstarted(&self, request: &EndUnstartedRequest) -> Result<Answer<EndUnstarted>, Error> {
        self.inner.end_unstarted(request).await
    }
    async fn take_over(&self, job: &JobKey, to: &Address) -> Result<TakeOver, Error> {
        self.inner.take_over(job, to).await
    }
    async fn abandon(&self, job: &JobKey, claim: &Claim) -> Result<bool, Error> {
        self.inner.abandon(job, claim).await
    }
    async fn shelve(&self, shelve: &ShelveRequest) -> Result<bool, Error> {
        self.inner.shelve(shelve).await
    }
    async fn count(&self, request: &CountRequest) -> Result<Counted, Error> {
        self.inner.count(request).await
    }
    async fn usage(&self) -> Result<Usage, Error> {
        self.inner.usage().await
    }
    async fn lookup(&self, job: &JobKey) -> Result<Option<Record>, Error> {
        self.inner.lookup(job).await
    }
    async fn heartbeat(&self, beat: &Heartbeat, ttl: Duration) -> Result<Beat, Error> {
        self.inner.heartbeat(beat, ttl).await
    }
    async fn leave(&self, worker: &WorkerId) -> Result<(), Error> {
        self.inner.leave(worker).await
    }
    async fn workers(&self) -> Result<Vec<Heartbeat>, Error> {
        if self.corrupt.load(Ordering::SeqCst) {
            return Err(Error::Corrupt("injected by the test".to_owned()));
        }
        self.inner.workers().await
    }
    async fn dead_workers(&self) -> Result<Vec<WorkerId>, Error> {
        trip(&self.looks);
        self.inner.dead_workers().await
    }
    async fn bury(&self, worker: &WorkerId) -> Result<(), Error> {
        self.inner.bury(worker).await
    }
    async fn end_session(
        &self,
        tenant: &TenantName,
        session: &SessionName,
        worker: &WorkerId,
        creator: Option<&JobId>,
        gone: Gone,
    ) -> Result<(), Error> {
        self.inner.end_session(tenant, session, worker, creator, gone).await
    }
    async fn session_holder(&self, tenant: &TenantName, session: &SessionName) -> Result<Holder, Error> {
        self.inner.session_holder(tenant, session).await
    }
    async fn lead(&self, shard: &str, who: &str, ttl: Duration) -> Result<bool, Error> {
        drop(self.gate.lock().await);
        self.inner.lead(shard, who, ttl).await
    }
    async fn credit_used(&self, pool: &PoolName) -> Result<u32, Error> {
        self.inner.credit_used(pool).await
    }
    fn notices(&self) -> broadcast::Receiver<Notice> {
        self.inner.notices()
    }
}
