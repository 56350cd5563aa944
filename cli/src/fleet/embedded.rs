//! The embedded fleet: the real scheduler and the real worker in this process, with the in-process backplane and native
//! sandboxes. It promises nothing beyond the end of the process.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thermae_backplane::bus::{self, SharedBus};
use thermae_backplane::declare_fleet;
use thermae_backplane::registry::{self, SharedRegistry};
use thermae_client::Client;
use thermae_schemas::{TenantName, WorkerState};
use thermae_service::health::Health;
use thermae_service::units::{ByteSize, Millis};
use thermae_worker::{Artifacts, Parts};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Error, Fleet};

/// How long the fleet may take to end. After that, the end of the process ends it.
const STOP_WITHIN: Duration = Duration::from_secs(3);

/// How long outcomes are kept. They are in this process's memory, so this is shorter than a worker's default of a day.
const RECORD_TTL: Millis = Millis::from_secs(600);

/// Options of the embedded fleet.
#[derive(Debug, Clone, Default)]
pub struct EmbeddedOptions {
    /// Python interpreter for the sandboxes; by default, the active virtualenv's, otherwise `python3` on `PATH`.
    pub python: Option<PathBuf>,
    /// Number of jobs that run at once; by default, twice the number of processors.
    pub slots: Option<u32>,
    /// Whether to import the pool's preload list (numpy, pandas) at once, instead of when the first job needs it.
    pub preload_eager: bool,
    /// Limits of jobs. The containers' size follows from the memory limits.
    pub limits: thermae_worker::LimitOptions,
    /// Size of all writable file systems of a sandbox together; by default, the pool's default.
    pub disk: Option<ByteSize>,
    /// Files and folders that jobs find at `/data/<name>`, read-only.
    pub datasets: BTreeMap<String, PathBuf>,
    /// How long the outcome of a job is kept for a second submit with its id; by default, ten minutes.
    pub record_ttl: Option<Millis>,
}

impl EmbeddedOptions {
    /// Options of the pool that the sandboxes come from.
    pub fn pool(&self) -> thermae_worker::PoolOptions {
        let default = thermae_worker::PoolOptions::default();
        thermae_worker::PoolOptions {
            backend: thermae_worker::BackendKind::Native,
            python: self.python.clone(),
            slots: self.slots,
            preload_eager: self.preload_eager,
            limits: self.limits.clone(),
            // The fleet has only one tenant.
            max_sessions_per_tenant: Some(default.max_sessions),
            // Nothing is shared with other tenants.
            tenant_traffic: Some(ByteSize(u64::MAX >> 1)),
            disk: self.disk.unwrap_or(default.disk),
            datasets: self.datasets.clone(),
            ..default
        }
    }
}

/// The parts of a running embedded fleet.
pub(super) struct Running {
    worker: CancellationToken,
    scheduler: CancellationToken,
    tasks: TaskTracker,
    health: Health,
    registry: SharedRegistry,
    /// The store for files of jobs. Its folder is removed with it.
    pub(super) artifacts: Artifacts,
    metrics: prometheus::Registry,
}

pub(super) async fn start(options: EmbeddedOptions) -> Result<Fleet, Error> {
    open_files().map_err(Error::Embedded)?;
    // Check the interpreter here: a worker without one would keep trying.
    thermae_runner::outer::Spec::detect(options.python.as_deref())
        .map_err(|error| Error::Embedded(error.to_string()))?;
    let failed = |part: &str, error: &dyn std::error::Error| {
        Error::Embedded(format!("{part}: {}", crate::failure::chain(error)))
    };
    let shared: SharedBus = Arc::new(bus::Local::new());
    let registry: SharedRegistry = Arc::new(registry::Local::new());
    let (metrics, health) = (prometheus::Registry::new(), Health::new());
    declare_fleet(&*shared).await.map_err(|error| failed("the bus", &error))?;

    let options = worker_options(&options);
    let artifacts = Artifacts::open(&options.artifacts, None).map_err(|error| failed("the store", &error))?;
    let worker = thermae_worker::Service::with_parts(
        options,
        shared.clone(),
        registry.clone(),
        &metrics,
        health.clone(),
        // The worker takes jobs as soon as one sandbox is ready: no other worker could run them.
        Parts { artifacts: Some(artifacts.clone()), early: true, ..Parts::default() },
    )
    .map_err(|error| failed("the worker", &error))?;
    let scheduler = thermae_scheduler::Service::new(
        thermae_scheduler::Options::default(),
        shared.clone(),
        registry.clone(),
        &metrics,
        Health::new(),
    )
    .map_err(|error| failed("the scheduler", &error))?;

    let running = Running {
        worker: CancellationToken::new(),
        scheduler: CancellationToken::new(),
        tasks: TaskTracker::new(),
        health,
        registry: registry.clone(),
        artifacts,
        metrics,
    };
    running.tasks.spawn({
        let drain = running.worker.clone();
        async move {
            if let Err(error) = worker.run(drain).await {
                tracing::error!(%error, "the embedded worker ended");
            }
        }
    });
    running.tasks.spawn({
        let stop = running.scheduler.clone();
        async move {
            if let Err(error) = scheduler.run(stop).await {
                tracing::error!(%error, "the embedded scheduler ended");
            }
        }
    });
    let tenant = TenantName::new("local").map_err(Error::Tenant)?;
    let client =
        Client::connect(shared.clone(), tenant, thermae_client::Options::default()).await.map_err(Error::Client)?;
    Ok(Fleet { client, bus: shared, embedded: Some(running) })
}

/// Number of files that this process must be able to open: sockets, pipes and handles of containers and sandboxes.
const OPEN_FILES: u64 = 256;

/// Raises the limit of open files if it is too low. With too few, a runner would end without saying why.
fn open_files() -> Result<(), String> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|soft| soft >= OPEN_FILES) {
        return Ok(());
    }
    let raised = Rlimit { current: Some(OPEN_FILES), maximum: limit.maximum };
    let allowed = limit.maximum.is_none_or(|hard| hard >= OPEN_FILES);
    if allowed && setrlimit(Resource::Nofile, raised).is_ok() {
        return Ok(());
    }
    let had = limit.maximum.or(limit.current).unwrap_or_default();
    Err(format!("this process may have at most {had} files open, but needs {OPEN_FILES} (ulimit -n {OPEN_FILES})"))
}

fn worker_options(options: &EmbeddedOptions) -> thermae_worker::Options {
    let mut worker = thermae_worker::Options {
        name: Some("embedded".to_owned()),
        // When the command ends, nobody waits for running jobs.
        drain_grace: Millis::from_millis(0),
        ..thermae_worker::Options::default()
    };
    worker.record_ttl = options.record_ttl.unwrap_or(RECORD_TTL);
    worker.outcome_ttl = worker.record_ttl;
    for pool in worker.pools.values_mut() {
        *pool = options.pool();
    }
    worker
}

impl Running {
    pub(super) fn metrics(&self) -> &prometheus::Registry {
        &self.metrics
    }

    pub(super) async fn ready(&self) {
        self.health.wait_ready().await;
    }

    /// Waits until the first sandbox turns out to be impossible, and gives the reason. Never returns once a sandbox was
    /// made: from then on, the worker recovers without help.
    pub(super) async fn unfit(&self) -> String {
        let mut notices = self.registry.notices();
        loop {
            let workers = self.registry.workers().await.unwrap_or_default();
            match workers.first().map(|worker| worker.state) {
                Some(WorkerState::Unhealthy) => {
                    let states = self.health.states();
                    return states.get("pools").map(|pools| pools.detail.clone()).unwrap_or_default();
                }
                Some(WorkerState::Ready | WorkerState::Draining) => std::future::pending::<()>().await,
                Some(WorkerState::Starting | WorkerState::Unknown) | None => {}
            }
            // After lost notices, look again, as after a notice.
            if let Err(RecvError::Closed) = notices.recv().await {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Kills what still runs, removes all sandboxes, and stops the tasks.
    pub(super) async fn stop(self) {
        self.worker.cancel();
        self.scheduler.cancel();
        self.tasks.close();
        if tokio::time::timeout(STOP_WITHIN, self.tasks.wait()).await.is_err() {
            tracing::warn!("the embedded fleet did not end in time");
        }
    }
}
