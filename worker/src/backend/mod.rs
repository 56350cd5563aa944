//! What draws the outer wall: makes containers whose runner connects to a socket of ours, and takes them away.

pub mod docker;
pub mod native;
mod socket;

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use thermae_runner::frames::Setup;
use thermae_schemas::{PoolName, WorkerId};
use tokio::net::UnixStream;

use crate::options::PoolOptions;

pub use socket::SocketDir;

/// What can go wrong with the making of containers.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine does not answer, or refuses.
    #[error("the container engine failed at {step}")]
    Engine {
        /// What was being done.
        step: &'static str,
        /// Why.
        #[source]
        source: bollard::errors::Error,
    },
    /// The system refuses.
    #[error("{step} failed")]
    System {
        /// What was being done.
        step: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The runner ended or did not connect.
    #[error("the container's runner did not connect: {0}")]
    Runner(String),
    /// This pool can't be made on this machine.
    #[error("{0}")]
    Unfit(String),
}

impl Error {
    pub(crate) fn system(step: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::System { step: step.into(), source }
    }
}

/// Who makes a container, and as which.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The worker.
    pub worker: WorkerId,
    /// The fleet's name.
    pub fleet: String,
    /// The pool.
    pub pool: PoolName,
    /// Counts this worker's containers.
    pub serial: u64,
}

impl Identity {
    /// The container's name, unique in the world.
    pub fn name(&self) -> String {
        format!("thermae-{}-{}-{}", self.worker, self.pool, self.serial)
    }
}

/// A container that was made: its runner is connected and waits for its set-up.
pub struct Made {
    /// The connection.
    pub stream: UnixStream,
    /// The container.
    pub container: Box<dyn Container>,
    /// Path of the Python interpreter inside.
    pub python: String,
}

/// Makes containers of one kind.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// Makes a container of this pool and waits for its runner to connect.
    async fn create(&self, identity: &Identity, pool: &PoolOptions) -> Result<Made, Error>;

    /// Looks through what jobs of this pool are shown of the machine.
    ///
    /// # Errors
    /// [`Error::Unfit`] where that is something that jobs must not be shown.
    async fn vet(&self, _: &PoolOptions) -> Result<(), Error> {
        Ok(())
    }

    /// Whether each container has a kernel of its own, so that one wall is enough.
    fn has_own_kernel(&self) -> bool {
        false
    }

    /// Removes containers that other workers left: those for which `orphaned` says so.
    ///
    /// Returns how many were removed.
    async fn sweep(&self, orphaned: &mut (dyn for<'a> FnMut(Leftover<'a>) -> bool + Send)) -> Result<usize, Error>;
}

/// A container that some worker made.
#[derive(Debug, Clone, Copy)]
pub struct Leftover<'a> {
    /// Fleet of that worker.
    pub fleet: &'a str,
    /// That worker's id, name and boot.
    pub worker: &'a str,
    /// Whether it runs.
    pub running: bool,
}

/// A container.
#[async_trait]
pub trait Container: Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// Kills whatever runs in it and removes it. The connection is closed already.
    async fn destroy(&mut self);
}

/// The set-up for a pool's runners.
pub fn setup(pool: &PoolOptions, python: String) -> Setup {
    Setup {
        wire: thermae_runner::frames::WIRE,
        python,
        preload: pool.preload.clone(),
        preload_eager: pool.preload_eager,
        spares: pool.spares,
        disk_bytes: pool.disk.0,
        artifacts: pool.artifacts.for_runner(),
        ceiling: pool.limits.runner_ceiling(),
        nested: true,
    }
}

/// Memory of a whole container: one job, its files, and the zygotes.
pub(crate) fn container_memory(pool: &PoolOptions) -> u64 {
    pool.limits.ceiling.memory.0 + pool.disk.0 + pool.overhead.0
}

/// Processes and threads of a whole container: one job's, and the runner's own, of which each sandbox made ahead has two (an init, and the
/// process that waits for its program), for each of three zygotes.
pub(crate) fn container_pids(pool: &PoolOptions) -> u32 {
    pool.limits.ceiling.pids.saturating_add(26).saturating_add(pool.spares.saturating_mul(6))
}

/// Labels by which a container's maker is known.
pub(crate) fn labels(identity: &Identity) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        (LABEL_FLEET, identity.fleet.clone()),
        (LABEL_WORKER, identity.worker.to_string()),
        (LABEL_POOL, identity.pool.to_string()),
    ])
}

pub(crate) const LABEL_FLEET: &str = "thermae.fleet";
pub(crate) const LABEL_WORKER: &str = "thermae.worker";
pub(crate) const LABEL_POOL: &str = "thermae.pool";

/// Time after which a container that should be gone is killed outright.
pub(crate) const KILL_AFTER: Duration = Duration::from_secs(2);
