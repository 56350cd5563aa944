//! Makes containers as the embedded fleet's worker does: with the same backend and the same pool.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use thermae_fleet::EmbeddedOptions;
use thermae_schemas::{PoolName, WorkerId};
use thermae_worker::backend::native::Native;
use thermae_worker::backend::{Backend, Identity, SocketDir, setup};
use thermae_worker::{NativeOptions, PoolOptions};
use tokio::process::Command;
use tokio_util::task::TaskTracker;

use super::bare::ENTRY;
use super::container::Container;

/// A backend, and the options of the pool that it serves.
pub(super) struct Site {
    native: Native,
    sockets: SocketDir,
    worker: WorkerId,
    pool: PoolOptions,
    made: AtomicU64,
}

impl Site {
    pub(super) fn open(python: Option<PathBuf>) -> Result<Self> {
        let pool = EmbeddedOptions { python, ..Default::default() }.pool();
        let worker = WorkerId::boot("floor");
        let sockets = SocketDir::open(None, worker.as_str()).context("make a directory for sockets")?;
        let native = Native::new(&NativeOptions::default(), sockets.clone(), TaskTracker::new())?;
        Ok(Self { native, sockets, worker, pool, made: AtomicU64::new(0) })
    }

    pub(super) fn pool(&self) -> &PoolOptions {
        &self.pool
    }

    /// Changes the options for containers that are made from now on.
    pub(super) fn change(&mut self, how: impl FnOnce(&mut PoolOptions)) {
        how(&mut self.pool);
    }

    /// Makes one container, and waits until it is ready.
    pub(super) async fn container(&self) -> Result<Container> {
        let identity = Identity {
            worker: self.worker.clone(),
            fleet: "floor".into(),
            pool: PoolName::new("default")?,
            serial: self.made.fetch_add(1, Ordering::Relaxed),
        };
        let made = self.native.create(&identity, &self.pool).await.context("make a container")?;
        let setup = setup(&self.pool, made.python);
        let limits = self.pool.limits.grant(&Default::default()).map_err(anyhow::Error::msg)?.run;
        Container::start(made.stream, made.container, setup, limits).await
    }

    /// A command that starts the process that forks, behind the outer wall. The caller adds the plan.
    pub(super) fn command(&self) -> Result<Command> {
        let mut command = Command::new(std::env::current_exe().context("find this program")?);
        command.arg(ENTRY).arg(serde_json::to_string(&self.native.spec(&self.pool)?)?).env_clear();
        Ok(command)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.sockets.remove();
    }
}
