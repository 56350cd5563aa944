//! What every task of a worker shares.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use thermae_backplane::bus::{self, SharedBus};
use thermae_backplane::registry::{self, SharedRegistry};
use thermae_schemas::{PoolName, WorkerId};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::artifacts::Artifacts;
use crate::heavy::Heavy;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::pool::Pool;
use crate::running::Table;
use crate::shelf::Shelf;
use crate::tools::Outstanding;
use crate::work::Work;

const BACKOFF: Duration = Duration::from_millis(50);
const MAX_BACKOFF: Duration = Duration::from_secs(2);

/// What every task of a worker shares.
pub(crate) struct Context {
    /// The worker's id.
    pub id: WorkerId,
    /// Its options.
    pub options: Options,
    /// The bus.
    pub bus: SharedBus,
    /// The registry.
    pub registry: SharedRegistry,
    /// Where files of jobs are stored.
    pub artifacts: Artifacts,
    /// Its metrics.
    pub metrics: Metrics,
    /// Jobs under way.
    pub table: Table,
    /// Tool calls that wait.
    pub calls: Outstanding,
    /// Where large outcomes go.
    pub shelf: Shelf,
    /// Where what is large is read.
    pub heavy: Heavy,
    /// Its pools.
    pub pools: BTreeMap<PoolName, Arc<Pool>>,
    /// Whether the worker's own queue is consumed. While it is not, the worker does not say that it takes jobs.
    pub registered: watch::Sender<bool>,
    /// Nothing new is started.
    pub draining: CancellationToken,
    /// What runs is killed.
    pub stop: CancellationToken,
    /// Nothing is tried any more.
    pub abort: CancellationToken,
}

/// Errors of the bus and of the registry, as far as trying again goes.
pub(crate) trait Transient: std::error::Error {
    /// Whether the same call may succeed later.
    fn is_transient(&self) -> bool;
}

impl Transient for bus::Error {
    fn is_transient(&self) -> bool {
        bus::Error::is_transient(self)
    }
}

impl Transient for registry::Error {
    fn is_transient(&self) -> bool {
        !matches!(self, registry::Error::Corrupt(_))
    }
}

impl Context {
    /// Repeats a call until it succeeds, fails for good, or the worker gives up (`None`).
    pub(crate) async fn insist<T, E: Transient, F: Future<Output = Result<T, E>>>(
        &self,
        what: &'static str,
        mut call: impl FnMut() -> F,
    ) -> Option<Result<T, E>> {
        let mut wait = BACKOFF;
        loop {
            match call().await {
                Err(e) if e.is_transient() => {
                    if wait == BACKOFF {
                        tracing::warn!(step = what, error = %e, "trying on");
                    }
                }
                done => return Some(done),
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => wait = (wait * 2).min(MAX_BACKOFF),
                () = self.abort.cancelled() => return None,
            }
        }
    }

    /// So many bytes of a job's go to its client, by the servers that all tenants share.
    pub(crate) fn moves(&self, work: &Work, bytes: usize) {
        if let Some(pool) = self.pool(&work.job.pool) {
            pool.traffic().count(&work.key.tenant, bytes);
        }
    }

    /// Until when a job's tenant must wait for what it moved before, if it must.
    pub(crate) fn owes_until(&self, work: &Work) -> Option<Instant> {
        self.pool(&work.job.pool)?.traffic().owes_until(&work.key.tenant)
    }

    /// A pool that is served here.
    pub(crate) fn pool(&self, name: &PoolName) -> Option<&Arc<Pool>> {
        self.pools.get(name)
    }
}
