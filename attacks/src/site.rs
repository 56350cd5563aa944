//! Where programs attack: a fleet with the real scheduler and worker in this process, on a backend of choice.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use thermae_backplane::bus::{self, SharedBus};
use thermae_backplane::declare_fleet;
use thermae_backplane::registry::{self, SharedRegistry};
use thermae_client::{Client, JobHandle};
use thermae_schemas::{Job, TenantName};
use thermae_service::health::Health;
use thermae_service::units::Millis;
use thermae_worker::{BackendKind, DockerOptions, Parts, Reuse};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::program::Payload;
use crate::tools::Tools;

/// How long the first container may take.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// How long all tasks may take to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// What makes the containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backend {
    /// The worker itself, as root.
    Native,
    /// The worker itself, as an ordinary user.
    Rootless,
    /// Docker with this runtime; `None` is the engine's default, runc.
    Docker(Option<String>),
}

impl Backend {
    /// Whether the outer runtime is gVisor's.
    pub fn is_runsc(&self) -> bool {
        matches!(self, Self::Docker(runtime) if DockerOptions { runtime: runtime.clone(), ..Default::default() }.is_gvisor())
    }
}

impl FromStr for Backend {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "native" => Ok(Self::Native),
            None if text == "rootless" => Ok(Self::Rootless),
            None if text == "docker" => Ok(Self::Docker(None)),
            Some(("docker", runtime)) => Ok(Self::Docker(Some(runtime.to_owned()))),
            _ => Err(format!("{text:?} is not native, rootless, docker or docker:RUNTIME")),
        }
    }
}

impl std::fmt::Display for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Native => f.write_str("native"),
            Self::Rootless => f.write_str("rootless"),
            Self::Docker(None) => f.write_str("docker"),
            Self::Docker(Some(runtime)) => write!(f, "docker:{runtime}"),
        }
    }
}

/// Where attacks are tried: a backend, and what a program there is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// What makes the containers.
    pub backend: Backend,
    /// What the attacking jobs are programs of.
    pub payload: Payload,
}

impl From<Backend> for Place {
    fn from(backend: Backend) -> Self {
        Self { backend, payload: Payload::Python }
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_suffix("+bash") {
            Some(backend) => Ok(Self { backend: backend.parse()?, payload: Payload::Bash }),
            None => text.parse::<Backend>().map(Self::from),
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bash = if self.payload == Payload::Bash { "+bash" } else { "" };
        write!(f, "{}{bash}", self.backend)
    }
}

/// What a backend needs to know about this machine.
#[derive(Debug, Clone, clap::Args)]
pub struct Machine {
    /// Python interpreter for native sandboxes; by default, the active virtualenv's, otherwise python3 on PATH.
    #[arg(long)]
    pub python: Option<PathBuf>,
    /// Socket of the Docker engine.
    #[arg(long, env = "THERMAE_TEST_DOCKER", default_value = "/var/run/docker.sock")]
    pub docker: PathBuf,
    /// Another process has set the machine as attacks need it; crashes leave their files in this folder.
    #[arg(long, hide = true)]
    pub changed: Option<PathBuf>,
    /// Image of Docker containers.
    #[arg(long, env = "THERMAE_TEST_IMAGE", default_value = "thermae/python:dev")]
    pub image: String,
}

/// A fleet with one worker, in this process.
pub struct Fleet {
    client: Client,
    bus: SharedBus,
    metrics: prometheus::Registry,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Fleet {
    /// Starts a fleet that runs `slots` jobs at once. With one slot, all jobs share one container, one after the other.
    ///
    /// # Errors
    /// No container can be made on this machine. The message has the worker's reason.
    pub async fn open(backend: &Backend, machine: &Machine, slots: u32) -> Result<Self> {
        let shared: SharedBus = Arc::new(bus::Local::new());
        let registry: SharedRegistry = Arc::new(registry::Local::new());
        let (metrics, health) = (prometheus::Registry::new(), Health::new());
        declare_fleet(&*shared).await.context("the bus")?;
        let options = options(backend, machine, slots);
        let worker = thermae_worker::Service::with_parts(
            options,
            shared.clone(),
            registry.clone(),
            &metrics,
            health.clone(),
            Parts { docker: Some(thermae_docker::backend), ..Parts::default() },
        )?;
        let options = thermae_scheduler::Options::default();
        let scheduler = thermae_scheduler::Service::new(options, shared.clone(), registry, &metrics, Health::new())?;
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        tasks.spawn({
            let drain = stop.clone();
            async move {
                if let Err(error) = worker.run(drain).await {
                    tracing::error!(%error, "the worker ended");
                }
            }
        });
        tasks.spawn({
            let stop = stop.clone();
            async move {
                if let Err(error) = scheduler.run(stop).await {
                    tracing::error!(%error, "the scheduler ended");
                }
            }
        });
        let client = Client::connect(shared.clone(), TenantName::new("acme")?, thermae_client::Options::default());
        let fleet = Self { client: client.await?, bus: shared, metrics, stop, tasks };
        if tokio::time::timeout(READY_TIMEOUT, health.wait_ready()).await.is_err() {
            let why = health.states().get("pools").map(|pools| pools.detail.clone()).unwrap_or_default();
            fleet.close().await;
            bail!("no container within {READY_TIMEOUT:?}: {why}");
        }
        Ok(fleet)
    }

    /// Submits a job of the tenant `acme`.
    ///
    /// # Errors
    /// The client's error.
    pub async fn submit(&self, job: Job, tools: &Arc<Tools>) -> Result<JobHandle> {
        Ok(self.client.submit(job, Some(tools.clone())).await?)
    }

    /// How many times the worker has checked whether a container is clean.
    pub fn proofs(&self) -> f64 {
        let families = self.metrics.gather();
        let family = families.iter().find(|f| f.name() == "thermae_worker_containers_verified_total");
        family.into_iter().flat_map(|f| f.get_metric()).map(|m| m.get_counter().get_value()).sum()
    }

    /// Kills running jobs, removes all containers, and stops all tasks.
    pub async fn close(self) {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(STOP_TIMEOUT, self.tasks.wait()).await.is_err() {
            tracing::warn!("the fleet did not end in time");
        }
        self.bus.close().await;
    }
}

fn options(backend: &Backend, machine: &Machine, slots: u32) -> thermae_worker::Options {
    let mut options = thermae_worker::Options {
        name: Some("attacks".to_owned()),
        // A random name: other fleets may use the same Docker engine.
        fleet: uuid::Uuid::new_v4().simple().to_string(),
        drain_grace: Millis::from_millis(0),
        ..thermae_worker::Options::default()
    };
    options.docker.socket = machine.docker.clone();
    for pool in options.pools.values_mut() {
        pool.slots = Some(slots);
        pool.warm = Some(1);
        pool.reuse = Reuse::Tenant;
        match backend {
            Backend::Native | Backend::Rootless => {
                pool.backend = BackendKind::Native;
                pool.python.clone_from(&machine.python);
            }
            Backend::Docker(runtime) => {
                pool.backend = BackendKind::Docker;
                pool.image.clone_from(&machine.image);
                options.docker.runtime.clone_from(runtime);
            }
        }
    }
    options
}
