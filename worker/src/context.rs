//! The state that all tasks of a worker share.

use std::collections::BTreeMap;
use std::sync::Arc;

use thermae_backplane::bus::{self, SharedBus};
use thermae_backplane::registry::{self, SharedRegistry};
use thermae_schemas::{PoolName, WorkerId};
use thermae_service::backoff::Backoff;
use thermae_tokens::Trust;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::artifacts::Artifacts;
use crate::audit::Audit;
use crate::heavy::Heavy;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::pool::Pool;
use crate::pulse::Pulse;
use crate::running::Table;
use crate::shelf::Shelf;
use crate::tools::Provider;
use crate::work::Work;

/// What all tasks of a worker share.
pub(crate) struct Context {
    /// The worker's id.
    pub id: WorkerId,
    pub options: Options,
    pub bus: SharedBus,
    pub registry: SharedRegistry,
    /// The store for the files of jobs.
    pub artifacts: Artifacts,
    pub metrics: Metrics,
    /// The jobs under way.
    pub table: Table,
    /// Asks for heartbeats at once.
    pub pulse: Arc<Pulse>,
    /// Writes down tool calls.
    pub audit: Audit,
    /// Whose tokens this worker takes. `None` if it takes none.
    pub trust: Option<Arc<Trust>>,
    /// Answers tool calls.
    pub provider: Arc<dyn Provider>,
    /// Moves large outcomes to the store.
    pub shelf: Shelf,
    /// Reads and checks large inputs.
    pub heavy: Arc<Heavy>,
    /// The pools that this worker serves.
    pub pools: BTreeMap<PoolName, Arc<Pool>>,
    /// Whether the worker's own queue is consumed. If not, the worker does not report that it takes jobs.
    pub registered: watch::Sender<bool>,
    /// Cancelled when the worker drains. From then on, nothing new is started.
    pub draining: CancellationToken,
    /// Cancelled when the grace of the drain is over. Everything that still runs is then killed.
    pub stop: CancellationToken,
    /// Cancelled when the worker gives up. From then on, nothing is tried again.
    pub abort: CancellationToken,
}

/// Errors of the bus and of the registry that may be transient.
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
    /// Repeats a call until it succeeds or fails permanently. `None` if the worker gives up first.
    pub(crate) async fn insist<T, E: Transient, F: Future<Output = Result<T, E>>>(
        &self,
        what: &'static str,
        mut call: impl FnMut() -> F,
    ) -> Option<Result<T, E>> {
        let (mut pause, mut said) = (Backoff::default(), false);
        loop {
            match call().await {
                Err(e) if e.is_transient() => {
                    if !std::mem::replace(&mut said, true) {
                        tracing::warn!(step = what, error = %e, "the step failed; trying again");
                    }
                }
                done => return Some(done),
            }
            tokio::select! {
                () = pause.wait() => {}
                () = self.abort.cancelled() => return None,
            }
        }
    }

    /// Counts bytes that a job moves through the servers that all tenants share.
    pub(crate) fn moves(&self, work: &Work, bytes: usize) {
        if let Some(pool) = self.pool(&work.job.pool) {
            pool.traffic().count(&work.key.tenant, bytes);
        }
    }

    /// Until when a job's tenant must wait because of what it moved before; `None` if it need not wait.
    pub(crate) fn owes_until(&self, work: &Work) -> Option<Instant> {
        self.pool(&work.job.pool)?.traffic().owes_until(&work.key.tenant)
    }

    /// The pool with this name, if this worker serves it.
    pub(crate) fn pool(&self, name: &PoolName) -> Option<&Arc<Pool>> {
        self.pools.get(name)
    }
}
