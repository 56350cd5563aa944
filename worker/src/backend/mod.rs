//! Backends make the outer wall: containers whose runners connect to a socket of the worker. They also remove these
//! containers.

mod backends;
pub mod native;
mod socket;

use std::sync::Arc;

use async_trait::async_trait;
use thermae_runner::PythonOptions;
use thermae_runner::frames::{LanguageSetup, Setup};
use thermae_schemas::{Language, PoolName, WorkerId};
use tokio::net::UnixStream;

use crate::options::{DockerOptions, PoolOptions};

pub(crate) use backends::Backends;
pub use socket::{Listening, OwnDir, SocketDir};

/// What can go wrong when a container is made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine does not answer, or refuses.
    #[error("the container engine failed at {step}")]
    Engine {
        /// The step that failed.
        step: &'static str,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The operating system refuses.
    #[error("{step} failed")]
    System {
        /// The step that failed.
        step: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The runner ended or did not connect.
    #[error("the container's runner did not connect: {0}")]
    Runner(String),
    /// This machine can't make the pool's containers.
    #[error("{0}")]
    Unfit(String),
}

impl Error {
    /// Makes an [`Error::Engine`] of its cause.
    pub fn engine<E: std::error::Error + Send + Sync + 'static>(step: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Engine { step, source: Box::new(source) }
    }

    /// Makes an [`Error::System`] of its cause.
    pub fn system(step: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::System { step: step.into(), source }
    }
}

/// An error and its causes in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(e) = source {
        let more = e.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = e.source();
    }
    text
}

/// Who makes a container, and which one of its containers it is.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Id of the worker.
    pub worker: WorkerId,
    /// Name of the fleet.
    pub fleet: String,
    /// Name of the pool.
    pub pool: PoolName,
    /// Number of the container among those of this worker.
    pub serial: u64,
}

impl Identity {
    /// The container's name, which is globally unique.
    pub fn name(&self) -> String {
        format!("thermae-{}-{}-{}", self.worker, self.pool, self.serial)
    }
}

/// A container that was made. Its runner is connected and waits for its set-up.
pub struct Made {
    /// The connection to the runner.
    pub stream: UnixStream,
    /// The container itself.
    pub container: Box<dyn Container>,
    /// Path of the Python interpreter in the container.
    pub python: String,
}

/// Makes containers of one kind.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// Makes a container of this pool and waits for its runner to connect.
    async fn create(&self, identity: &Identity, pool: &PoolOptions) -> Result<Made, Error>;

    /// Checks the files of the machine that jobs of this pool can see.
    ///
    /// # Errors
    /// [`Error::Unfit`] if there is something among them that jobs must not see.
    async fn vet(&self, _: &PoolOptions) -> Result<(), Error> {
        Ok(())
    }

    /// Whether each container has its own kernel, so that one wall is enough.
    fn has_own_kernel(&self) -> bool {
        false
    }

    /// Removes the containers for which `orphaned` returns true.
    ///
    /// Returns how many were removed.
    async fn sweep(&self, orphaned: &mut (dyn for<'a> FnMut(Leftover<'a>) -> bool + Send)) -> Result<usize, Error>;
}

/// Makes the Docker backend, or says why it can't with these options.
pub type MakeDocker = fn(&DockerOptions, SocketDir) -> Result<Arc<dyn Backend>, Error>;

/// A container that some worker made.
#[derive(Debug, Clone, Copy)]
pub struct Leftover<'a> {
    /// Fleet of the worker.
    pub fleet: &'a str,
    /// Id of the worker: its name and its boot.
    pub worker: &'a str,
    /// Whether the container runs.
    pub running: bool,
}

/// A container that a backend has made.
#[async_trait]
pub trait Container: Send + Sync {
    /// The container's name.
    fn name(&self) -> &str;

    /// Kills everything in the container and removes it. The connection is closed already.
    async fn destroy(&mut self);
}

/// The set-up message for the runners of a pool.
pub fn setup(pool: &PoolOptions, python: String) -> Setup {
    let python = PythonOptions {
        path: python,
        python_path: pool.python_path.iter().map(|dir| dir.to_string_lossy().into_owned()).collect(),
        preload: pool.preload.clone(),
        preload_eager: pool.preload_eager,
    };
    let options = |language: &Language| match language.as_str() {
        "python" => serde_json::to_value(&python).unwrap_or_default(),
        _ => serde_json::Value::Null,
    };
    let language = |language| LanguageSetup { name: Language::to_string(language), options: options(language) };
    Setup {
        wire: thermae_runner::frames::WIRE,
        languages: pool.languages.iter().map(language).collect(),
        spares: pool.spares,
        disk_bytes: pool.disk.0,
        artifacts: pool.artifacts.for_runner(),
        ceiling: pool.limits.runner_ceiling(),
        nested: true,
    }
}

/// Memory of a whole container in bytes: one job, its files, and the zygotes.
pub fn container_memory(pool: &PoolOptions) -> u64 {
    pool.limits.ceiling.memory.0 + pool.disk.0 + pool.overhead.0
}

/// Processes and threads of a whole container: one job's, those that the requests to a session start with, and the
/// runner's own. Each sandbox that is made ahead has two (an init, and the process that waits for its program), for
/// each of three zygotes.
pub fn container_pids(pool: &PoolOptions) -> u32 {
    let (requests, spares) = (pool.bounds.session_requests, pool.spares.saturating_mul(6));
    pool.limits.ceiling.pids.saturating_add(26).saturating_add(requests).saturating_add(spares)
}
