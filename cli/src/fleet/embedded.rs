//! The embedded fleet: the real scheduler and the real worker in this process, between them the in-process backplane, and native
//! sandboxes. Its promise ends with its process.

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

/// How long the end of the fleet may take before it is left to the process's own end.
const STOP_WITHIN: Duration = Duration::from_secs(3);

/// How long outcomes are kept: in this process's memory, so not for the day that a worker's are.
const RECORD_TTL: Millis = Millis::from_secs(600);

/// How the embedded fleet is made.
#[derive(Debug, Clone, Default)]
pub struct EmbeddedOptions {
    /// Interpreter of its sandboxes; that of the active virtualenv, else of `PATH`, where it is missing.
    pub python: Option<PathBuf>,
    /// Jobs that run at once; twice the number of processors where it is missing.
    pub slots: Option<u32>,
    /// Import the pool's preload list (numpy, pandas) at once, and not when the first job asks for it.
    pub preload_eager: bool,
    /// Limits of its jobs; their memory makes the containers' size.
    pub limits: thermae_worker::LimitOptions,
    /// Size of a sandbox's writable file systems together; the pool's default where it is missing.
    pub disk: Option<ByteSize>,
    /// Files and folders that its jobs find at `/data/<name>`, read-only.
    pub datasets: BTreeMap<String, PathBuf>,
    /// How long the outcome of a job that ended is kept, for a second submit of its id; ten minutes where it is missing.
    pub record_ttl: Option<Millis>,
}

impl EmbeddedOptions {
    /// The pool that its sandboxes come from.
    pub fn pool(&self) -> thermae_worker::PoolOptions {
        let default = thermae_worker::PoolOptions::default();
        thermae_worker::PoolOptions {
            backend: thermae_worker::BackendKind::Native,
            python: self.python.clone(),
            slots: self.slots,
            preload_eager: self.preload_eager,
            limits: self.limits.clone(),
            // There is one tenant.
            max_sessions_per_tenant: Some(default.max_sessions),
            // Nothing is shared with anybody.
            tenant_traffic: Some(ByteSize(u64::MAX >> 1)),
            disk: self.disk.unwrap_or(default.disk),
            datasets: self.datasets.clone(),
            ..default
        }
    }
}

/// The parts of a fleet that runs.
pub(super) struct Running {
    worker: CancellationToken,
    scheduler: CancellationToken,
    tasks: TaskTracker,
    health: Health,
    registry: SharedRegistry,
    /// Where files of its jobs are, in a folder that goes with it.
    pub(super) artifacts: Artifacts,
    metrics: prometheus::Registry,
}

pub(super) async fn start(options: EmbeddedOptions) -> Result<Fleet, Error> {
    open_files().map_err(Error::Embedded)?;
    // Found out here, because a worker would go on trying.
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
        // The first job needs one sandbox, and nobody else could run it.
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

/// Files that this process must be able to have open: sockets, pipes and handles of containers and their sandboxes.
const OPEN_FILES: u64 = 256;

/// Sees to it that enough files can be open; else a runner would end without a word of why.
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
    Err(format!("this process may have no more than {had} files open, and needs {OPEN_FILES} (ulimit -n {OPEN_FILES})"))
}

fn worker_options(options: &EmbeddedOptions) -> thermae_worker::Options {
    let mut worker = thermae_worker::Options {
        name: Some("embedded".to_owned()),
        // When the command ends, what still runs has nobody to tell.
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

    /// Ends, with the reason, when the first sandbox can't be made. Waits for ever once one was made: from then on the worker mends
    /// itself.
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
            // A lost notice is as good as one.
            if let Err(RecvError::Closed) = notices.recv().await {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Kills what still runs, removes every sandbox, ends.
    pub(super) async fn stop(self) {
        self.worker.cancel();
        self.scheduler.cancel();
        self.tasks.close();
        if tokio::time::timeout(STOP_WITHIN, self.tasks.wait()).await.is_err() {
            tracing::warn!("the embedded fleet did not end in time");
        }
    }
}
