//! What may go wrong, with scripted runners: one outcome for every job, whatever dies, and code that runs once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use thermae_backplane::bus::{Message, SharedBus};
use thermae_backplane::record::{Finish, Record, Resolve, Settle, Start};
use thermae_backplane::registry::{
    self, Admit, Admitted, Beat, Claim, Epoch, Error, FinishRequest, Gone, JobKey, Notice, Registry, ResolveRequest,
    SettleRequest, StartRequest,
};
use thermae_schemas::{ErrorCode, Heartbeat, PoolName, SessionName, Status, TenantName, WorkerId, WorkerState, names};
use thermae_service::units::Millis;
use thermae_worker::Options;
use tokio::sync::{broadcast, watch};

use crate::fake::{Fake, Script};
use crate::harness::{Fleet, Worker, options, pool_name, python, within};

async fn scripted(fleet: &Fleet, options: Options, script: &Arc<Script>) -> Worker {
    fleet.start(options, fleet.registry.clone(), Some(Arc::new(Fake(Arc::clone(script))))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_deliveries_of_one_job_run_it_once() {
    let mut fleet = Fleet::new().await;
    let script = Script::new();
    let job = python("print once");
    let mut message = fleet.assign(&fleet.tenant.clone(), &job, None).await;
    message.headers.set_flag(names::H_MAYBE_DUPLICATE, true);
    // Both wait in the queue before anybody takes them.
    let worker = scripted(&fleet, options(), &script).await;
    for _ in 0..2 {
        fleet.bus.publish(message.clone()).await.unwrap().wait().await.unwrap();
    }
    let outcome = fleet.outcome(&job).await;
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Status::Succeeded, "once"));
    // The second is answered from the record, or left to resolve when it came while the first one ran.
    let mut resolve = fleet.bus.consume(names::RESOLVE_QUEUE, 1).await.unwrap();
    tokio::select! {
        again = fleet.outcome(&job) => assert_eq!(again, outcome),
        copy = resolve.next() => assert_eq!(copy.unwrap().message.message_id.as_deref(), Some(job.id.as_str())),
    }
    worker.end().await;
    assert_eq!(script.starts("print once"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_started_elsewhere_is_left_to_resolve() {
    let fleet = Fleet::new().await;
    let script = Script::new();
    let worker = scripted(&fleet, options(), &script).await;
    let job = python("print x");
    let message = fleet.assign(&fleet.tenant.clone(), &job, None).await;
    fleet.start_elsewhere(&job, &message).await;
    fleet.bus.publish(message.clone()).await.unwrap().wait().await.unwrap();
    let resolved = fleet.resolved().await;
    assert_eq!(
        resolved.message,
        Message { exchange: names::RESOLVE.into(), key: String::new(), mandatory: false, ..message }
    );
    assert_eq!(script.starts("print x"), 0);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_dies_under_the_code_is_lost_once_and_replaced() {
    let mut fleet = Fleet::new().await;
    let script = Script::new();
    let worker = scripted(&fleet, options(), &script).await;
    let outcome = fleet.run(&python("die")).await;
    let error = outcome.error.unwrap();
    assert_eq!((outcome.status, error.code, error.safe_to_retry), (Status::Lost, ErrorCode::SandboxLost, false));
    for n in 0..6 {
        assert_eq!(
            fleet.run(&python(&format!("print {n}"))).await.status,
            Status::Succeeded,
            "the dead one is not lent again"
        );
    }
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_attempts_left_it_is_given_up_at_once_and_goes_to_resolve() {
    let fleet = Fleet::new().await;
    let script = Script::new();
    let worker = scripted(&fleet, options(), &script).await;
    let mut job = python("die");
    job.max_attempts = 2;
    fleet.submit(&job).await;
    let resolved = fleet.resolved().await;
    assert_eq!(resolved.message.headers.int(names::H_ATTEMPT), Some(1));
    let request = ResolveRequest {
        job: fleet.key(&job),
        pool: job.pool.clone(),
        attempt: 1,
        max_attempts: 2,
        lost: Default::default(),
        grace: Duration::ZERO,
        ttl: Duration::from_secs(600),
    };
    assert_eq!(fleet.registry.resolve(&request).await.unwrap(), Resolve::Reassign(2));
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_never_ran_is_tried_in_another_container_under_the_same_claim() {
    let mut fleet = Fleet::new().await;
    let script = Script::new();
    script.sick.store(2, Ordering::SeqCst);
    let worker = scripted(&fleet, options(), &script).await;
    let outcome = fleet.run(&python("print well")).await;
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Status::Succeeded, "well"));
    let outcome = fleet.run(&python("nostart")).await;
    let error = outcome.error.unwrap();
    assert_eq!((outcome.status, error.code, error.safe_to_retry), (Status::Rejected, ErrorCode::SandboxFailed, true));
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_does_not_answer_a_kill_dies_with_its_container() {
    let mut fleet = Fleet::new().await;
    let script = Script::new();
    let mut options = options();
    let pool = options.pools.get_mut(&pool_name()).unwrap();
    (pool.ping_every, pool.ping_within) = (Millis::from_millis(50), Millis::from_millis(50));
    let worker = scripted(&fleet, options, &script).await;
    let outcome = fleet.run(&python("deaf")).await;
    let error = outcome.error.unwrap();
    assert_eq!((outcome.status, error.code), (Status::Lost, ErrorCode::SandboxLost));
    assert!(error.message.contains("hangs"), "{}", error.message);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_engine_loses_nothing_and_shows() {
    let mut fleet = Fleet::new().await;
    let script = Script::new();
    script.broken.send_replace(true);
    let backend = Arc::new(Fake(Arc::clone(&script)));
    let worker = fleet.start_unready(options(), fleet.registry.clone(), Some(backend));
    fleet.until_state(&worker.id, WorkerState::Unhealthy).await;
    assert!(worker.health.states()["pools"].detail.contains("the engine is down"));
    let job = python("print patient");
    fleet.submit(&job).await;
    assert_eq!(fleet.depth(&names::pool_queue(&job.pool)).await, 1, "nobody takes it");
    script.broken.send_replace(false);
    assert_eq!(fleet.outcome(&job).await.stdout, "patient");
    fleet.until_state(&worker.id, WorkerState::Ready).await;
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_gives_back_what_has_not_started_and_lets_the_rest_end() {
    let mut fleet = Fleet::new().await;
    let script = Script::new();
    let mut options = options();
    let pool = options.pools.get_mut(&pool_name()).unwrap();
    (pool.slots, pool.warm) = (Some(1), Some(1));
    let worker = scripted(&fleet, options.clone(), &script).await;
    let (running, waiting) = (python("hang"), python("print later"));
    fleet.submit(&running).await;
    script.until_started("hang", 1).await;
    fleet.submit(&waiting).await;
    worker.drain.cancel();
    fleet.until_state(&worker.id, WorkerState::Draining).await;
    assert_eq!(script.starts("print later"), 0);
    // It still hears cancels.
    fleet.cancel(&worker.id, &running).await;
    assert_eq!(fleet.outcome(&running).await.status, Status::Cancelled);
    worker.end().await;
    assert_eq!(script.made.load(Ordering::SeqCst), script.destroyed.load(Ordering::SeqCst), "no container is left");
    let next = scripted(&fleet, options, &script).await;
    assert_eq!(fleet.outcome(&waiting).await.stdout, "later");
    next.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_grace_what_still_runs_is_lost_with_the_reason_or_tried_elsewhere() {
    let mut fleet = Fleet::new().await;
    let script = Script::new();
    let mut options = options();
    options.drain_grace = Millis::from_millis(50);
    let worker = scripted(&fleet, options, &script).await;
    let (once, twice) = (python("hang once"), {
        let mut job = python("hang twice");
        job.max_attempts = 2;
        job
    });
    fleet.submit(&once).await;
    fleet.submit(&twice).await;
    script.until_started("hang once", 1).await;
    script.until_started("hang twice", 1).await;
    worker.end().await;
    let outcome = fleet.outcome(&once).await;
    assert_eq!((outcome.status, outcome.error.unwrap().code), (Status::Lost, ErrorCode::WorkerStopped));
    assert_eq!(fleet.resolved().await.message.message_id.as_deref(), Some(twice.id.as_str()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_key_that_nobody_binds_costs_nothing_but_the_reply() {
    let fleet = Fleet::new().await;
    let script = Script::new();
    let worker = scripted(&fleet, options(), &script).await;
    let job = python("print unheard");
    let mut message = fleet.assign(&fleet.tenant.clone(), &job, None).await;
    message.reply_to = Some("acme.gone".into());
    fleet.bus.publish(message).await.unwrap().wait().await.unwrap();
    let recorded = fleet.until_recorded(&job).await;
    assert!(recorded.contains("unheard"), "{recorded}");
    worker.end().await;
    assert_eq!(fleet.depth(&names::pool_queue(&job.pool)).await, 0, "it was acknowledged");
}

/// A registry that can be cut off.
struct Cut {
    inner: Arc<registry::Local>,
    cut: watch::Sender<bool>,
    finishes_fail: AtomicBool,
}

impl Cut {
    fn new(inner: &Arc<registry::Local>) -> Arc<Self> {
        Arc::new(Self { inner: inner.clone(), cut: watch::Sender::new(false), finishes_fail: AtomicBool::new(false) })
    }

    fn there(&self) -> Result<&registry::Local, Error> {
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
    async fn start(&self, start: &StartRequest) -> Result<Start, Error> {
        self.there()?.start(start).await
    }
    async fn finish(&self, finish: &FinishRequest) -> Result<Finish, Error> {
        if self.finishes_fail.load(Ordering::SeqCst) {
            return Err(Error::Disconnected("cut".into()));
        }
        self.there()?.finish(finish).await
    }
    async fn resolve(&self, resolve: &ResolveRequest) -> Result<Resolve, Error> {
        self.there()?.resolve(resolve).await
    }
    async fn settle(&self, settle: &SettleRequest) -> Result<Settle, Error> {
        self.there()?.settle(settle).await
    }
    async fn abandon(&self, job: &JobKey, claim: &Claim) -> Result<bool, Error> {
        self.there()?.abandon(job, claim).await
    }
    async fn lookup(&self, job: &JobKey) -> Result<Option<Record>, Error> {
        self.there()?.lookup(job).await
    }
    async fn heartbeat(&self, beat: &Heartbeat, ttl: Duration) -> Result<Beat, Error> {
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
        gone: Gone,
    ) -> Result<(), Error> {
        self.there()?.end_session(tenant, session, worker, gone).await
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
    options.lease = Millis::from_millis(400);
    let worker = fleet.start(options, registry.clone(), Some(Arc::new(Fake(Arc::clone(&script))))).await;
    let job = python("hang");
    fleet.submit(&job).await;
    script.until_started("hang", 1).await;
    registry.cut.send_replace(true);
    let resolved = fleet.resolved().await;
    assert_eq!(resolved.message.message_id.as_deref(), Some(job.id.as_str()));
    assert_eq!(worker.count("thermae_worker_leases_lost_total", "passed"), 1.0);
    registry.cut.send_replace(false);
    // Not a word of it went to the client: the next thing it hears is the next job.
    let next = python("print next");
    fleet.submit(&next).await;
    assert_eq!(fleet.event().await.job, next.id);
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
    // Somebody ends the attempt behind the worker's back.
    let claim = Claim { attempt: 1, owner: worker.id.clone(), nonce: running.nonce };
    let request = FinishRequest {
        job: fleet.key(&job),
        pool: job.pool.clone(),
        claim,
        outcome: b"another".as_slice().into(),
        ttl: Duration::from_secs(600),
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
    // The broker hands the job out again, marked: another worker's connection gets it.
    let message = fleet.assign_again(&job).await;
    let again: SharedBus = fleet.bus.clone();
    again.publish(message).await.unwrap().wait().await.unwrap();
    fleet.resolved().await;
    fleet.cancel(&worker.id, &job).await;
    assert_eq!(fleet.outcome(&job).await.status, Status::Cancelled);
    worker.end().await;
    assert_eq!(script.starts("hang"), 1);
}
