//! A fleet for one test.

// The path is told because other tests have this file by its path, too.
#[path = "harness/hears.rs"]
mod hears;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use thermae_backplane::bus::{self, Consumer, Headers, Message, QueueSpec, SharedBus};
use thermae_backplane::declare_fleet;
use thermae_backplane::registry::{self, Admit, Admitted, JobKey, Registry, SessionAdmit, Target};
use thermae_schemas::{ClientId, Event, Job, PoolName, SessionRequest, TenantName, WorkerId, WorkerState, names};
use thermae_service::health::Health;
use thermae_service::units::Millis;
use thermae_worker::backend::Backend;
use thermae_worker::{Options, Parts, Service};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Longer than anything here takes, also on a busy machine. A test that waits this long has failed.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(180);

/// A fleet with one client of the tenant `acme`.
pub struct Fleet {
    pub broker: Arc<bus::Local>,
    pub bus: SharedBus,
    pub registry: Arc<registry::Local>,
    pub tenant: TenantName,
    pub client: ClientId,
    replies: Box<dyn Consumer>,
    unread: VecDeque<Event>,
}

/// A worker that runs.
pub struct Worker {
    pub id: WorkerId,
    pub drain: CancellationToken,
    pub metrics: prometheus::Registry,
    pub health: Health,
    pub run: JoinHandle<Result<(), thermae_worker::Error>>,
}

impl Worker {
    /// Waits until the worker ends with an error, without a drain.
    pub async fn refusal(self) -> thermae_worker::Error {
        within("the worker's end", self.run).await.unwrap().unwrap_err()
    }

    /// Drains the worker and waits for its end.
    pub async fn end(self) {
        self.drain.cancel();
        within("the worker's end", self.run).await.unwrap().unwrap();
    }

    /// Sum of a metric over all series, or over those with this value of a label.
    pub fn count(&self, name: &str, label: &str) -> f64 {
        let families = self.metrics.gather();
        let metrics = families.iter().filter(|f| f.name() == name).flat_map(|f| f.get_metric());
        let fits = metrics.filter(|m| label.is_empty() || m.get_label().iter().any(|l| l.value() == label));
        fits.map(|m| m.get_gauge().get_value() + m.get_counter().get_value()).sum()
    }
}

/// Fails the test if something takes longer than [`TEST_TIMEOUT`].
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(TEST_TIMEOUT, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: not within {TEST_TIMEOUT:?}"),
    }
}

pub fn pool_name() -> PoolName {
    PoolName::new("default").unwrap()
}

pub fn python(code: &str) -> Job {
    Job::python(code)
}

/// Small and quick: two slots, no pandas. No time passes here because the machine is busy: a test whose subject is one
/// sets it.
pub fn options() -> Options {
    let mut options = Options {
        name: Some("test".into()),
        heartbeat_every: Millis::from_millis(100),
        lease: Millis::from_secs(60),
        drain_grace: Millis::from_secs(60),
        ..Options::default()
    };
    options.native.runner = vec![env!("CARGO_BIN_EXE_thermae-worker").into(), "__runner".into()];
    let pool = options.pools.get_mut(&pool_name()).unwrap();
    pool.slots = Some(2);
    pool.warm = Some(2);
    pool.preload.clear();
    options
}

impl Fleet {
    pub async fn new() -> Self {
        Self::of("acme").await
    }

    /// A fleet with one client of this tenant.
    pub async fn of(tenant: &str) -> Self {
        let broker = Arc::new(bus::Local::new());
        let bus: SharedBus = broker.clone();
        declare_fleet(&*bus).await.unwrap();
        let (tenant, client) = (TenantName::new(tenant).unwrap(), ClientId::random());
        bus.declare_queue(&QueueSpec::replies(&tenant, &client)).await.unwrap();
        let replies = bus.consume(&names::reply_queue(&tenant, &client), 1000).await.unwrap();
        let registry = Arc::new(registry::Local::new());
        Self { broker, bus, registry, tenant, client, replies, unread: VecDeque::new() }
    }

    /// A worker with the real runner.
    pub async fn worker(&self, options: Options) -> Worker {
        self.start(options, self.registry.clone(), None).await
    }

    /// Starts a worker, and waits until it takes jobs.
    pub async fn start(
        &self,
        options: Options,
        registry: Arc<dyn Registry>,
        backend: Option<Arc<dyn Backend>>,
    ) -> Worker {
        let worker = self.start_unready(options, registry, backend);
        within("readiness", worker.health.wait_ready()).await;
        self.until_state(&worker.id, WorkerState::Ready).await;
        worker
    }

    pub fn start_unready(
        &self,
        options: Options,
        registry: Arc<dyn Registry>,
        backend: Option<Arc<dyn Backend>>,
    ) -> Worker {
        self.start_with(options, registry, Parts { backend, docker: Some(thermae_docker::backend), ..Parts::default() })
    }

    pub fn start_with(&self, options: Options, registry: Arc<dyn Registry>, parts: Parts) -> Worker {
        let (metrics, health) = (prometheus::Registry::new(), Health::new());
        let bus: SharedBus = Arc::new(self.broker.connect());
        let service = Service::with_parts(options, bus, registry, &metrics, health.clone(), parts).unwrap();
        let (id, drain) = (service.id().clone(), CancellationToken::new());
        let run = tokio::spawn(service.run(drain.clone()));
        Worker { id, drain, metrics, health, run }
    }

    /// Waits until the registry knows that the worker is in this state.
    pub async fn until_state(&self, worker: &WorkerId, state: WorkerState) {
        let known = async {
            loop {
                let workers = self.registry.workers().await.unwrap();
                if workers.iter().any(|w| w.worker == *worker && w.state == state) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        within("the worker's state", known).await;
    }

    pub fn key(&self, job: &Job) -> JobKey {
        JobKey::new(self.tenant.clone(), job.id.clone())
    }

    /// Admits a job and hands it out, as a scheduler does.
    pub async fn submit(&self, job: &Job) {
        self.submit_as(&self.tenant.clone(), job).await;
    }

    pub async fn submit_as(&self, tenant: &TenantName, job: &Job) {
        let message = self.assign(tenant, job, None).await;
        self.bus.publish(message).await.unwrap().wait().await.unwrap();
    }

    /// Submits a job of a session, placed on this worker.
    pub async fn submit_to(&self, worker: &WorkerId, job: &Job) {
        let message = self.assign(&self.tenant, job, Some(worker.clone())).await;
        self.bus.publish(message).await.unwrap().wait().await.unwrap();
    }

    /// Admits a job, as a scheduler does.
    pub async fn admit(&self, tenant: &TenantName, job: &Job, candidate: Option<WorkerId>) -> Admitted {
        let reply_key = names::reply_key(&self.tenant, &self.client);
        self.registry
            .admit(&Admit {
                job: JobKey::new(tenant.clone(), job.id.clone()),
                pool: job.pool.clone(),
                credit: 1000,
                tenant_limit: None,
                tenant_share: None,
                max_attempts: job.max_attempts,
                reply_key: Some(reply_key),
                correlation_id: Some("mark".into()),
                digest: job.id.to_string(),
                idempotency_key: None,
                repeat: None,
                session: job.session.as_ref().map(|s| SessionAdmit {
                    session: s.id.clone(),
                    if_gone: s.if_gone(),
                    candidate,
                }),
                credit_ttl: Duration::from_secs(600),
                ttl: Duration::from_secs(600),
            })
            .await
            .unwrap()
    }

    /// Makes the record of a job. Returns its work message.
    pub async fn assign(&self, tenant: &TenantName, job: &Job, candidate: Option<WorkerId>) -> Message {
        let reply_key = names::reply_key(&self.tenant, &self.client);
        let admitted = self.admit(tenant, job, candidate).await;
        let Admitted::Assigned { attempt, epoch, to, .. } = admitted else { panic!("not assigned: {admitted:?}") };
        let (key, create) = match to {
            Target::Pool => (names::pool_key(&job.pool, job.protocol), false),
            Target::Worker { worker, create } => (names::worker_key(&worker), create),
        };
        let mut headers = Headers::default();
        headers.set_text(names::H_TENANT, tenant.as_str());
        headers.set_int(names::H_ATTEMPT, attempt.into());
        headers.set_int(names::H_MAX_ATTEMPTS, job.max_attempts.into());
        headers.set_text(names::H_EPOCH, epoch.0);
        headers.set_flag(names::H_SESSION_CREATE, create);
        Message {
            exchange: names::WORK.into(),
            key,
            body: serde_json::to_vec(job).unwrap().into(),
            message_id: Some(job.id.to_string()),
            correlation_id: Some("mark".into()),
            reply_to: Some(reply_key),
            headers,
            mandatory: true,
            persistent: true,
            ..Message::default()
        }
    }

    /// A second copy of a job's work message, marked as a possible duplicate.
    pub async fn assign_again(&self, job: &Job) -> Message {
        let mut headers = Headers::default();
        headers.set_text(names::H_TENANT, self.tenant.as_str());
        headers.set_int(names::H_ATTEMPT, 1);
        headers.set_int(names::H_MAX_ATTEMPTS, job.max_attempts.into());
        headers.set_text(names::H_EPOCH, self.registry.epoch().await.unwrap().0);
        headers.set_flag(names::H_MAYBE_DUPLICATE, true);
        Message {
            exchange: names::WORK.into(),
            key: names::pool_key(&job.pool, job.protocol),
            body: serde_json::to_vec(job).unwrap().into(),
            message_id: Some(job.id.to_string()),
            reply_to: Some(names::reply_key(&self.tenant, &self.client)),
            headers,
            mandatory: true,
            persistent: true,
            ..Message::default()
        }
    }
}

/// A job of a session.
pub fn session_job(session: &str, code: &str) -> Job {
    let mut job = python(code);
    job.session = Some(SessionRequest::new(thermae_schemas::SessionName::new(session).unwrap()));
    job
}
