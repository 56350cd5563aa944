//! The embedded fleet: the real scheduler and the real worker in this process, with the in-process backplane and native
//! sandboxes. It promises nothing beyond the end of the process.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use thermae_backplane::bus::{self, SharedBus};
use thermae_backplane::declare_fleet;
use thermae_backplane::registry::{self, SharedRegistry};
use thermae_client::Client;
use thermae_runner::outer::Spec;
use thermae_schemas::{TenantName, WorkerState};
use thermae_service::health::Health;
use thermae_worker::{Artifacts, Parts};
use tokio::sync::broadcast::error::RecvError;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::options::UNBOUNDED;
use crate::{EmbeddedOptions, Error, Fleet, Unfit, entry};

/// How long the fleet may take to end. After that, the end of the process ends it.
const STOP_WITHIN: Duration = Duration::from_secs(3);

/// How long a program may take to prove that it is a Python interpreter.
const PROVE_WITHIN: Duration = Duration::from_secs(10);

/// Number of files that this process must be able to open: sockets, pipes and handles of containers and sandboxes.
const OPEN_FILES: u64 = 256;

/// The parts of a running embedded fleet.
pub(crate) struct Running {
    /// Ends the scheduler and the worker, also when it is dropped.
    stop: DropGuard,
    /// Ends when they have ended.
    ended: JoinHandle<()>,
    health: Health,
    registry: SharedRegistry,
    /// Path of the interpreter.
    python: String,
    /// The store for files of jobs. Its folder is removed with it.
    artifacts: Artifacts,
    metrics: prometheus::Registry,
}

/// Starts the fleet. Boxed, so that this crate compiles it, and not each program that has a fleet.
pub(crate) fn start(options: EmbeddedOptions) -> BoxFuture<'static, Result<Fleet, Error>> {
    Box::pin(started(options))
}

async fn started(options: EmbeddedOptions) -> Result<Fleet, Error> {
    let bus: SharedBus = Arc::new(bus::Local::new());
    let running = Running::start(&options, &bus).await.map_err(Error::Embedded)?;
    let tenant = TenantName::new("local").map_err(Error::Tenant)?;
    let client =
        Client::connect(bus.clone(), tenant, thermae_client::Options::default()).await.map_err(Error::Client)?;
    Ok(Fleet { client, bus, embedded: Some(running) })
}

impl Running {
    async fn start(options: &EmbeddedOptions, bus: &SharedBus) -> Result<Self, Unfit> {
        if !entry::called() {
            return Err(Unfit::NoEntry);
        }
        open_files()?;
        // Check the interpreter here: a worker without one would keep trying.
        let python = Spec::for_python(options.python.as_deref())?.interpreter;
        let registry: SharedRegistry = Arc::new(registry::Local::new());
        let (metrics, health) = (prometheus::Registry::new(), Health::new());
        declare_fleet(&**bus).await.map_err(Unfit::Bus)?;

        let options = options.worker();
        let artifacts = Artifacts::open(&options.artifacts, None).map_err(Unfit::Store)?;
        let worker = thermae_worker::Service::with_parts(
            options,
            bus.clone(),
            registry.clone(),
            &metrics,
            health.clone(),
            // The worker takes jobs as soon as one sandbox is ready: no other worker could run them.
            Parts { artifacts: Some(artifacts.clone()), early: true, ..Parts::default() },
        )
        .map_err(Unfit::Worker)?;
        let scheduler = thermae_scheduler::Service::new(
            // Nothing is shared with other tenants.
            thermae_scheduler::Options { refused_bytes: UNBOUNDED, ..thermae_scheduler::Options::default() },
            bus.clone(),
            registry.clone(),
            &metrics,
            Health::new(),
        )
        .map_err(Unfit::Scheduler)?;

        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        tasks.spawn({
            let drain = stop.clone();
            async move {
                if let Err(error) = worker.run(drain).await {
                    tracing::error!(%error, "the embedded worker ended");
                }
            }
        });
        tasks.spawn({
            let stop = stop.clone();
            async move {
                if let Err(error) = scheduler.run(stop).await {
                    tracing::error!(%error, "the embedded scheduler ended");
                }
            }
        });
        let ended = tokio::spawn({
            let bus = bus.clone();
            async move {
                while tasks.join_next().await.is_some() {}
                // Clients that still wait learn that nothing will come.
                bus.close().await;
            }
        });
        Ok(Self { stop: stop.drop_guard(), ended, health, registry, python, artifacts, metrics })
    }

    pub(crate) fn store(&self) -> &Artifacts {
        &self.artifacts
    }

    pub(crate) fn metrics(&self) -> &prometheus::Registry {
        &self.metrics
    }

    pub(crate) async fn ready(&self) {
        self.health.wait_ready().await;
    }

    /// Waits until the first sandbox turns out to be impossible, and gives the reason. Never returns once a sandbox was
    /// made: from then on, the worker recovers without help.
    pub(crate) async fn unfit(&self) -> Unfit {
        let mut notices = self.registry.notices();
        loop {
            let workers = self.registry.workers().await.unwrap_or_default();
            match workers.first().map(|worker| worker.state) {
                Some(WorkerState::Unhealthy) => return self.reason().await,
                Some(WorkerState::Ready | WorkerState::Draining) => std::future::pending::<()>().await,
                Some(WorkerState::Starting | WorkerState::Unknown) | None => {}
            }
            // After lost notices, look again, as after a notice.
            if let Err(RecvError::Closed) = notices.recv().await {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Why the first sandbox failed. If the interpreter doesn't work, it is named as the cause: the sandbox only saw it
    /// end.
    async fn reason(&self) -> Unfit {
        let states = self.health.states();
        let why = states.get("pools").map(|pools| pools.detail.clone()).unwrap_or_default();
        if is_python(&self.python).await {
            Unfit::Sandbox(why)
        } else {
            Unfit::NotPython { python: self.python.clone(), why }
        }
    }

    /// Kills what still runs, removes all sandboxes, and stops the tasks.
    pub(crate) async fn stop(self) {
        drop(self.stop);
        if tokio::time::timeout(STOP_WITHIN, self.ended).await.is_err() {
            tracing::warn!("the embedded fleet did not end in time");
        }
    }
}

/// Raises the limit of open files if it is too low. With too few, a runner would end without saying why.
fn open_files() -> Result<(), Unfit> {
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
    Err(Unfit::OpenFiles { most: limit.maximum.or(limit.current).unwrap_or_default(), needed: OPEN_FILES })
}

/// Whether a program behaves as a Python interpreter.
async fn is_python(program: &str) -> bool {
    let mut asked = tokio::process::Command::new(program);
    asked.args(["-I", "-c", "print(40 + 2)"]).stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let answer = tokio::time::timeout(PROVE_WITHIN, asked.output()).await;
    answer.is_ok_and(|output| output.is_ok_and(|output| output.stdout == b"42\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_program_that_would_not_become_the_runner_is_refused() {
        let error = Fleet::embedded(EmbeddedOptions::default()).await.unwrap_err();
        assert!(matches!(error, Error::Embedded(Unfit::NoEntry)), "{error:?}");
    }

    #[tokio::test]
    async fn an_interpreter_is_known_by_what_it_prints() {
        assert!(is_python("python3").await);
        assert!(!is_python("ls").await && !is_python("/nonexistent").await);
    }
}
