//! The embedded fleet: the real scheduler and the real worker in this process, with the in-process backplane and native
//! sandboxes. It promises nothing beyond the end of the process.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use thermae_backplane::bus::{self, SharedBus};
use thermae_backplane::declare_fleet;
use thermae_backplane::registry::{self, SharedRegistry};
use thermae_client::{Client, Store};
use thermae_runner::outer::Spec;
use thermae_schemas::{ArtifactId, TenantName, WorkerState};
use thermae_service::health::Health;
use thermae_service::units::ByteSize;
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

/// Largest size of a job without its large files and inputs, which go into the store.
const LARGEST_JOB: ByteSize = ByteSize::mib(16);

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
    /// The store for files of jobs.
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
    let client = Client::connect(bus.clone(), tenant, running.client()).await.map_err(Error::Client)?;
    Ok(Fleet { client, bus, embedded: Some(running) })
}

/// The store for files of jobs, as clients use it.
#[derive(Debug)]
struct Kept(Artifacts);

impl Store for Kept {
    fn keep<'a>(&'a self, tenant: &'a TenantName, content: Bytes) -> BoxFuture<'a, Result<ArtifactId, String>> {
        Box::pin(async move { self.0.keep(tenant, content).await.map_err(|error| error.to_string()) })
    }
}

impl Running {
    async fn start(options: &EmbeddedOptions, bus: &SharedBus) -> Result<Self, Unfit> {
        if !entry::called() {
            return Err(Unfit::NoEntry);
        }
        open_files()?;
        // Check the interpreter here: a worker without one would keep trying.
        let python = Spec::for_python(options.python.as_deref())?.interpreter;
        options.datasets.iter().try_for_each(|(name, path)| readable(name, path))?;
        if options.preload != EmbeddedOptions::default().preload {
            let names = missing(&python, options).await;
            if !names.is_empty() {
                return Err(Unfit::Preload { python, names });
            }
        }
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
            thermae_scheduler::Options {
                refused_bytes: UNBOUNDED,
                max_job_bytes: LARGEST_JOB,
                ..thermae_scheduler::Options::default()
            },
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

    /// The options of the fleet's clients: large contents of jobs go into its store.
    pub(crate) fn client(&self) -> thermae_client::Options {
        let store: Arc<dyn Store> = Arc::new(Kept(self.artifacts.clone()));
        thermae_client::Options { store: Some(store), ..thermae_client::Options::default() }
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
        let python = self.python.clone();
        match version(&python).await {
            None => Unfit::NotPython { python, why },
            Some(version) if is_old(&version) => Unfit::OldPython { python, version },
            Some(_) => Unfit::Sandbox(why),
        }
    }

    /// Kills what still runs, removes all sandboxes, and stops the tasks.
    pub(crate) async fn stop(self) {
        drop(self.stop);
        if tokio::time::timeout(STOP_WITHIN, self.ended).await.is_err() {
            tracing::warn!("the embedded fleet did not end in time");
        }
        // Tasks of clients may hold the store until the process ends, and then nothing would remove its folder.
        self.artifacts.close();
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

/// Whether the user that sandboxes run as can read a dataset: this one, or nobody in particular if this one is root.
fn readable(name: &str, path: &Path) -> Result<(), Unfit> {
    let can = if rustix::process::geteuid().is_root() {
        std::fs::metadata(path).is_ok_and(|meta| {
            let needed = if meta.is_dir() { 0o5 } else { 0o4 };
            meta.permissions().mode() & needed == needed
        })
    } else {
        rustix::fs::access(path, rustix::fs::Access::READ_OK).is_ok()
    };
    let unfit = || Unfit::Dataset { name: name.to_owned(), path: path.to_owned() };
    can.then_some(()).ok_or_else(unfit)
}

/// The modules to be imported ahead that the interpreter does not have.
async fn missing(python: &str, options: &EmbeddedOptions) -> Vec<String> {
    const ASK: &str = "import importlib.util, sys; count = int(sys.argv[1]); sys.path[:0] = sys.argv[2:2 + count]; \
                       print(*(n for n in sys.argv[2 + count:] if not importlib.util.find_spec(n.partition('.')[0])))";
    // What sandboxes have at /data is elsewhere on this machine.
    let here = |path: &PathBuf| {
        let below = path.strip_prefix("/data").ok()?;
        let (name, rest) = below.to_str()?.split_once('/').unwrap_or((below.to_str()?, ""));
        Some(options.datasets.get(name)?.join(rest))
    };
    let paths: Vec<PathBuf> =
        options.python_path.iter().map(|path| here(path).unwrap_or_else(|| path.clone())).collect();
    let arguments = [OsString::from(paths.len().to_string())].into_iter().chain(paths.into_iter().map(OsString::from));
    let answer = ask(python, ASK, arguments.chain(options.preload.iter().map(OsString::from))).await;
    // An interpreter that doesn't answer is told otherwise.
    answer.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// The version of a Python interpreter. `None` if the program is none.
async fn version(program: &str) -> Option<String> {
    const ASK: &str = "import sys; print('%d.%d.%d' % tuple(sys.version_info[:3]))";
    let answer = ask(program, ASK, []).await?;
    let version = answer.trim();
    version.split('.').all(|part| part.parse::<u32>().is_ok()).then(|| version.to_owned())
}

/// Whether sandboxes don't run on this version of Python.
fn is_old(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or_default());
    (parts.next(), parts.next()) < (Some(3), Some(9))
}

/// What an interpreter prints for a program. `None` if it fails, or takes too long.
async fn ask(python: &str, program: &str, arguments: impl IntoIterator<Item = OsString>) -> Option<String> {
    let mut asked = tokio::process::Command::new(python);
    asked.args(["-I", "-c", program]).args(arguments);
    asked.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(PROVE_WITHIN, asked.output()).await.ok()?.ok()?;
    output.status.success().then(|| String::from_utf8(output.stdout).ok()).flatten()
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
    async fn an_interpreter_is_known_by_its_version() {
        assert!(version("python3").await.is_some_and(|version| version.starts_with("3.") && !is_old(&version)));
        assert!(version("ls").await.is_none() && version("/nonexistent").await.is_none());
        for (text, old) in [("3.8.20", true), ("2.7.18", true), ("3.9.0", false), ("3.14.1", false), ("4.0.0", false)] {
            assert_eq!(is_old(text), old, "{text}");
        }
    }

    #[tokio::test]
    async fn modules_that_nobody_has_are_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("mine.py"), "").unwrap();
        let mut options = EmbeddedOptions {
            preload: ["json", "nmpy", "os.path", "mine", "pnadas.core"].map(str::to_owned).into(),
            python_path: vec!["/data/own".into()],
            ..EmbeddedOptions::default()
        };
        assert_eq!(missing("python3", &options).await, ["nmpy", "mine", "pnadas.core"]);
        options.datasets.insert("own".into(), dir.path().into());
        assert_eq!(missing("python3", &options).await, ["nmpy", "pnadas.core"]);
    }

    #[test]
    fn a_dataset_that_sandboxes_can_not_read_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, file) = (dir.path().join("folder"), dir.path().join("file"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(&file, "").unwrap();
        for (path, good, bad) in [(&folder, 0o755, 0o000), (&file, 0o644, 0o000)] {
            let set = |mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
            set(good);
            assert!(readable("d", path).is_ok());
            set(bad);
            let error = readable("d", path).unwrap_err().to_string();
            assert!(error.contains("the dataset \"d\"") && error.contains("chmod -R o+rX"), "{error}");
        }
    }
}
