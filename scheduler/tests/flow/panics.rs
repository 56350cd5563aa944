//! Parts of a scheduler that fail: what fails is told, given up and begun anew; never does the rest go on as if nothing were.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use thermae_backplane::bus::SharedBus;
use thermae_backplane::record::{Finish, Record, Resolve, Settle, Start};
use thermae_backplane::registry::{
    Admit, Admitted, Beat, Claim, Epoch, Error, FinishRequest, Gone, JobKey, Local, Notice, Registry, ResolveRequest,
    SettleRequest, StartRequest,
};
use thermae_scheduler::Service;
use thermae_schemas::{Heartbeat, PoolName, SessionName, TenantName, WorkerId};
use thermae_service::http::Health;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::fleet::{Servers, job, options, soon};

/// A registry that panics when it is told to.
#[derive(Default)]
struct Faulty {
    inner: Local,
    /// Admissions that panic.
    admissions: AtomicU32,
    /// Looks at the dead workers that panic.
    looks: AtomicU32,
    /// Whether the workers can't be read.
    corrupt: AtomicBool,
}

/// Counts down; panics while there is something to count.
fn trip(left: &AtomicU32) {
    let tripped = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
    assert!(!tripped, "injected by the test");
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
        self.inner.admit(admit).await
    }
    async fn start(&self, start: &StartRequest) -> Result<Start, Error> {
        self.inner.start(start).await
    }
    async fn finish(&self, finish: &FinishRequest) -> Result<Finish, Error> {
        self.inner.finish(finish).await
    }
    async fn resolve(&self, resolve: &ResolveRequest) -> Result<Resolve, Error> {
        self.inner.resolve(resolve).await
    }
    async fn settle(&self, settle: &SettleRequest) -> Result<Settle, Error> {
        self.inner.settle(settle).await
    }
    async fn abandon(&self, job: &JobKey, claim: &Claim) -> Result<bool, Error> {
        self.inner.abandon(job, claim).await
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
        gone: Gone,
    ) -> Result<(), Error> {
        self.inner.end_session(tenant, session, worker, gone).await
    }
    async fn lead(&self, shard: &str, who: &str, ttl: Duration) -> Result<bool, Error> {
        self.inner.lead(shard, who, ttl).await
    }
    async fn credit_used(&self, pool: &PoolName) -> Result<u32, Error> {
        self.inner.credit_used(pool).await
    }
    fn notices(&self) -> broadcast::Receiver<Notice> {
        self.inner.notices()
    }
}

#[tokio::test]
async fn a_dispatcher_that_panics_gives_up_the_lead_and_no_job_waits_for_ever() {
    let registry = Arc::new(Faulty::default());
    let servers = Servers::on(registry.clone());
    let scheduler = servers.scheduler(options()).await;
    let _order = servers.worker("w1", 1).await.work("ran\n").await;
    let client = servers.client("acme").await;
    registry.admissions.store(1, Ordering::SeqCst);
    let handle = client.submit(job("j"), None).await.unwrap();
    assert_eq!(soon(handle.result()).await.unwrap().stdout, "ran\n");
    assert_eq!(scheduler.metric("thermae_scheduler_panics_total", ""), 1.0);
    scheduler.stop().await;
}

#[tokio::test]
async fn a_part_that_panics_at_once_leaves_the_lead_to_others() {
    let registry = Arc::new(Faulty::default());
    registry.looks.store(3, Ordering::SeqCst);
    let servers = Servers::on(registry.clone());
    let (a, b) = (servers.scheduler(options()).await, servers.scheduler(options()).await);
    let _order = servers.worker("w1", 1).await.work("ran\n").await;
    let client = servers.client("acme").await;
    let handle = client.submit(job("j"), None).await.unwrap();
    assert_eq!(soon(handle.result()).await.unwrap().stdout, "ran\n");
    soon(async {
        while registry.looks.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let (in_a, in_b) = (a.metric("thermae_scheduler_panics_total", ""), b.metric("thermae_scheduler_panics_total", ""));
    assert_eq!(in_a + in_b, 3.0);
    a.stop().await;
    b.stop().await;
}

#[tokio::test]
async fn a_scheduler_that_cannot_read_the_registry_ends_with_an_error() {
    let registry = Arc::new(Faulty::default());
    registry.corrupt.store(true, Ordering::SeqCst);
    let bus: SharedBus = Arc::new(thermae_backplane::bus::Local::new());
    let metrics = prometheus::Registry::new();
    let service = Service::new(options(), bus, registry, &metrics, Health::new()).unwrap();
    let ended = soon(service.run(CancellationToken::new())).await;
    assert!(matches!(ended, Err(thermae_scheduler::Error::Registry(Error::Corrupt(_)))), "{ended:?}");
}
