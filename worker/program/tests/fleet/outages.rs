//! Outages of the registry and the broker, and leases that pass in the meantime: nothing runs twice, and nothing is
//! sent without a lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use thermae_backplane::bus::SharedBus;
use thermae_backplane::record::{Address, Answer, EndUnstarted, Finish, Record, Resolve, Start, TakeOver};
use thermae_backplane::registry::{
    self, Admit, Admitted, Beat, Claim, CountRequest, Counted, EndUnstartedRequest, Epoch, Error, FinishRequest, Gone,
    Holder, JobKey, Notice, Registry, ResolveRequest, ShelveRequest, StartRequest, Usage,
};
use thermae_schemas::{Heartbeat, JobId, PoolName, SessionName, Status, Stream, TenantName, WorkerId};
use thermae_service::units::Millis;
use tokio::sync::{broadcast, watch};

use crate::fake::{Fake, Script};
use crate::faults::{KEEP, scripted};
use crate::harness::{Fleet, options, python, within};

/// A lease that passes while the test waits, and is renewed in time on a busy machine.
const SHORT: Millis = Millis::from_secs(5);

/// A registry that can be cut off.
pub struct Cut {
    pub inner: Arc<registry::Local>,
    pub cut: watch::Sender<bool>,
    pub finishes_fail: AtomicBool,
    pub finishes_panic: AtomicBool,
    pub heartbeats_panic: AtomicBool,
    /// Whether a start is answered only when its lease has passed.
    pub starts_late: AtomicBool,
}

impl Cut {
    pub fn new(inner: &Arc<registry::Local>) -> Arc<Self> {
        Arc::new(Self {
            inner: inner.clone(),
            cut: watch::Sender::new(false),
            finishes_fail: AtomicBool::new(false),
            finishes_panic: AtomicBool::new(false),
            heartbeats_panic: AtomicBool::new(false),
            starts_late: AtomicBool::new(false),
        })
    }

    pub fn there(&self) -> Result<&registry::Local, Error> {
        if *self.cut.borrow() { Err(Error::Disconnected("cut".into())) } else { Ok(&self.inner) }
    }
}

#[async_trait]
impl Registry for Cut {
    async fn epoch(&self) -> Result<Epoch, Error> {
        self.there()?.epoch().await
    }
    async fn check(&self) -> Result<(), Error> {
        self.there()?.check().await
    }
    async fn admit(&self, admit: &Admit) -> Result<Admitted, Error> {
        self.there()?.admit(admit).await
    }
    async fn start(&self, start: &StartRequest) -> Result<Answer<Start>, Error> {
        let started = self.there()?.start(start).await;
        if self.starts_late.load(Ordering::SeqCst) {
            tokio::time::sleep(start.lease).await;
        }
        started
    }
    async fn finish(&self, finish: &FinishRequest) -> Result<Answer<Finish>, Error> {
        assert!(!self.finishes_panic.swap(false, Ordering::SeqCst), "injected by the test");
        if self.finishes_fail.load(Ordering::SeqCst) {
            return Err(Error::Disconnected("cut".into()));
        }
        self.there()?.finish(finish).await
    }
    async fn resolve(&self, resolve: &ResolveRequest) -> Result<Answer<Resolve>, Error> {
        self.there()?.resolve(resolve).await
    }
    async fn end_unstarted(&self, request: &EndUnstartedRequest) -> Result<Answer<EndUnstarted>, Error> {
        self.there()?.end_unstarted(request).await
    }
    async fn take_over(&self, job: &JobKey, to: &Address) -> Result<TakeOver, Error> {
        self.there()?.take_over(job, to).await
    }
    async fn abandon(&self, job: &JobKey, claim: &Claim) -> Result<bool, Error> {
        self.there()?.abandon(job, claim).await
    }
    async fn shelve(&self, shelve: &ShelveRequest) -> Result<bool, Error> {
        self.there()?.shelve(shelve).await
    }
    async fn count(&self, request: &CountRequest) -> Result<Counted, Error> {
        self.there()?.count(request).await
    }
    async fn usage(&self) -> Result<Usage, Error> {
        self.there()?.usage().await
    }
    async fn lookup(&self, job: &JobKey) -> Result<Option<Record>, Error> {
        self.there()?.lookup(job).await
    }
    async fn heartbeat(&self, beat: &Heartbeat, ttl: Duration) -> Result<Beat, Error> {
        assert!(!self.heartbeats_panic.load(Ordering::SeqCst), "injected by the test");
        self.there()?.heartbeat(beat, ttl).await
    }
    async fn leave(&self, worker: &WorkerId) -> Result<(), Error> {
        self.there()?.leave(worker).await
    }
    async fn workers(&self) -> Result<Vec<Heartbeat>, Error> {
        self.there()?.workers().await
    }
    async fn dead_workers(&self) -> Result<Vec<WorkerId>, Error> {
        self.there()?.dead_workers().await
    }
    async fn bury(&self, worker: &WorkerId) -> Result<(), Error> {
        self.there()?.bury(worker).await
    }
    async fn end_session(
        &self,
        tenant: &TenantName,
        session: &SessionName,
        worker: &WorkerId,
        creator: Option<&JobId>,
        gone: Gone,
    ) -> Result<(), Error> {
        self.there()?.end_session(tenant, session, worker, creator, gone).await
    }
    async fn session_holder(&self, tenant: &TenantName, session: &SessionName) -> Result<Holder, Error> {
        self.there()?.session_holder(tenant, session).await
    }
    async fn lead(&self, shard: &str, who: &str, ttl: Duration) -> Result<bool, Error> {
        self.there()?.lead(shard, who, ttl).await
    }
    async fn credit_used(&self, pool: &PoolName) -> Result<u32, Error> {
        self.there()?.credit_used(pool).await
    }
    fn notices(&self) -> broadcast::Receiver<Notice> {
        self.inner.notices()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_waits_for_a_registry_that_is_down() {
    let mut fleet = Fleet::new().await;
    let (script, registry) = (Script::new(), Cut::new(&fleet.registry));
    let worker = fleet.start(options(), registry.clone(), Some(Arc::new(Fake(Arc::clone(&script))))).await;
    registry.finishes_fail.store(true, Ordering::SeqCst);
    let job = python("print kept");
    fleet.submit(&job).await;
    script.until_started("print kept", 1).await;
    assert_eq!(fleet.recorded(&job).await, None);
    registry.finishes_fail.store(false, Ordering::SeqCst);
    assert_eq!(fleet.outcome(&job).await.stdout, "kept");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_past_its_lease_kills_the_code_and_sends_nothing() {
    let mut fleet = Fleet::new().await;
    let (script, registry) = (Script::new(), Cut::new(&fleet.registry));
    let mut options = options();
    options.lease = SHORT;
    let worker = fleet.start(options, registry.clone(), Some(Arc::new(Fake(Arc::clone(&script))))).await;
    let job = python("hang");
    fleet.submit(&job).await;
    script.until_started("hang", 1).await;
    registry.cut.send_replace(true);
    let resolved = fleet.resolved().await;
    assert_eq!(resolved.message.message_id.as_deref(), Some(job.id.as_str()));
    assert_eq!(worker.count("thermae_worker_leases_lost_total", "passed"), 1.0);
    registry.cut.send_replace(false);
    // Nothing of the job went to the client: its next event is of the next job.
    let next = python("print next");
    fleet.submit(&next).await;
    assert_eq!(fleet.event().await.job, next.id);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_go_that_comes_after_its_lease_starts_nothing() {
    let fleet = Fleet::new().await;
    let (script, registry) = (Script::new(), Cut::new(&fleet.registry));
    let mut options = options();
    options.lease = Millis::from_millis(300);
    let worker = fleet.start(options, registry.clone(), Some(Arc::new(Fake(Arc::clone(&script))))).await;
    registry.starts_late.store(true, Ordering::SeqCst);
    let job = python("print late");
    fleet.submit(&job).await;
    assert_eq!(fleet.resolved().await.message.message_id.as_deref(), Some(job.id.as_str()));
    assert_eq!(script.starts("print late"), 0);
    assert_eq!(worker.count("thermae_worker_leases_lost_total", "passed"), 1.0);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_lease_nothing_is_streamed() {
    let mut fleet = Fleet::new().await;
    let (script, registry) = (Script::new(), Cut::new(&fleet.registry));
    let mut options = options();
    options.lease = SHORT;
    let worker = fleet.start(options, registry.clone(), Some(Arc::new(Fake(Arc::clone(&script))))).await;
    let mut job = python("words nobody should hear");
    job.stream = vec![Stream::Output];
    fleet.submit(&job).await;
    script.until_started(&job.code, 1).await;
    registry.cut.send_replace(true);
    fleet.resolved().await;
    registry.cut.send_replace(false);
    let next = python("print next");
    fleet.submit(&next).await;
    assert_eq!(fleet.event().await.job, next.id, "the first word is the next job's");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_claim_kills_the_code() {
    let mut fleet = Fleet::new().await;
    let script = Script::new();
    let worker = scripted(&fleet, options(), &script).await;
    let job = python("hang");
    fleet.submit(&job).await;
    script.until_started("hang", 1).await;
    let running = fleet.registry.workers().await.unwrap();
    let running = within("the job in a heartbeat", async {
        let mut workers = running;
        loop {
            if let Some(job) = workers.iter().flat_map(|w| &w.running).next() {
                return job.clone();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
            workers = fleet.registry.workers().await.unwrap();
        }
    })
    .await;
    // Another process ends the attempt, and the worker does not know.
    let claim = Claim { attempt: 1, owner: worker.id.clone(), nonce: running.nonce };
    let request = FinishRequest {
        job: fleet.key(&job),
        pool: job.pool.clone(),
        claim,
        outcome: b"another".as_slice().into(),
        status: thermae_schemas::Status::Succeeded,
        keep: KEEP,
    };
    assert_eq!(fleet.registry.finish(&request).await.unwrap(), Finish::Won);
    fleet.resolved().await;
    assert_eq!(worker.count("thermae_worker_leases_lost_total", "revoked"), 1.0);
    let next = python("print next");
    fleet.submit(&next).await;
    assert_eq!(fleet.event().await.job, next.id);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_to_the_broker_runs_nothing_twice() {
    let mut fleet = Fleet::new().await;
    let script = Script::new();
    let options = options();
    let worker = scripted(&fleet, options, &script).await;
    let job = python("hang");
    fleet.submit(&job).await;
    script.until_started("hang", 1).await;
    // The broker delivers the job again, marked as a possible duplicate.
    let message = fleet.assign_again(&job).await;
    let again: SharedBus = fleet.bus.clone();
    again.publish(message).await.unwrap().wait().await.unwrap();
    fleet.resolved().await;
    fleet.cancel(&worker.id, &job).await;
    assert_eq!(fleet.outcome(&job).await.status, Status::Cancelled);
    worker.end().await;
    assert_eq!(script.starts("hang"), 1);
}
