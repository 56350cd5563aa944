//! A pool: containers of one specification. They are made ahead in the background, and lent to one job (or session) at
//! a time.
//!
//! ```text
//!            refill                acquire                 give back
//!  (absent) ───────▶ idle, unbound ───────▶ lent (bound) ───────────▶ idle, bound to its tenant ──▶ retired
//!                                              │ keep: a session has it                │ no memory for more such
//!                                              └─ broken: destroyed                    └─ evicted, oldest use first
//! ```
//!
//! The warm containers are kept for any tenant, whatever single tenants hold. Containers that nobody waits for are made
//! while no job needs the machine.
//!
//! [`Pool::acquire`] takes an idle container without waiting. Only if there is none, it waits until the background task
//! has made one. Containers are also destroyed in the background.

mod choice;
mod maintain;
mod member;
mod paused;
mod plan;
mod pooled;
mod proof;
mod state;
mod traffic;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thermae_schemas::{Language, PoolName, TenantName, WorkerId};
use tokio::sync::{Notify, Semaphore, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::backend::Backend;
use crate::metrics::{Metrics, PoolMetrics};
use crate::options::{PoolOptions, Reuse};
use crate::phase::Warmth;

use member::Member;
pub(crate) use paused::Paused;
pub(crate) use pooled::PooledContainer;
use state::{State, Waiter};
pub(crate) use traffic::Traffic;

/// What can go wrong when a job takes a container.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Error {
    /// No container became free in time, and none could be made.
    #[error("no container became free within {} ms", .0.as_millis())]
    Busy(Duration),
    /// The pool is closed.
    #[error("the pool is closed")]
    Closed,
}

/// Whether a pool can run jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Condition {
    /// It makes its first containers.
    Starting,
    /// It has containers, and takes jobs.
    Ready,
    /// It has no containers and can't make any, for this reason.
    Unhealthy(String),
    /// Its containers have no inner wall, for this reason, and the options do not say that one wall is enough.
    Unwalled(String),
}

/// A pool of containers.
pub(crate) struct Pool {
    name: PoolName,
    worker: WorkerId,
    fleet: String,
    options: PoolOptions,
    backend: Arc<dyn Backend>,
    slots: Arc<Semaphore>,
    traffic: Traffic,
    state: Mutex<State>,
    /// Memory for idle containers of tenants, in bytes.
    bound_memory: u64,
    wake: Notify,
    serial: Arc<AtomicU64>,
    condition: watch::Sender<Condition>,
    /// Whether the warm containers were ready once.
    warm: watch::Sender<bool>,
    /// Whether jobs run as soon as one container is ready.
    early: bool,
    tasks: TaskTracker,
    closed: CancellationToken,
    metrics: PoolMetrics,
    /// The languages that the last new container has. Empty before the first.
    languages: Mutex<Vec<Language>>,
}

/// The worker that a pool belongs to.
#[derive(Clone)]
pub(crate) struct Owner {
    /// Id of the worker.
    pub worker: WorkerId,
    /// Name of the fleet.
    pub fleet: String,
    /// Counts all containers of the worker.
    pub serial: Arc<AtomicU64>,
    /// Where the pool's tasks run.
    pub tasks: TaskTracker,
    /// Whether jobs run as soon as one container is ready, and not only when the warm ones are.
    pub early: bool,
    /// Memory for a pool's idle containers of tenants if its options do not name any, in bytes.
    pub bound_memory: u64,
}

impl Pool {
    /// Makes a pool. It is empty until [`Pool::run`] runs.
    pub(crate) fn new(
        name: PoolName,
        options: PoolOptions,
        backend: Arc<dyn Backend>,
        owner: Owner,
        metrics: &Metrics,
    ) -> Arc<Self> {
        Arc::new(Self {
            metrics: metrics.pool(&name),
            worker: owner.worker,
            fleet: owner.fleet,
            slots: Arc::new(Semaphore::new(options.slots() as usize)),
            traffic: Traffic::new(options.tenant_traffic()),
            state: Mutex::new(State::new(options.reuse)),
            bound_memory: options.bound_memory.map_or(owner.bound_memory, |size| size.0),
            wake: Notify::new(),
            serial: owner.serial,
            condition: watch::Sender::new(Condition::Starting),
            warm: watch::Sender::new(false),
            early: owner.early,
            tasks: owner.tasks,
            closed: CancellationToken::new(),
            languages: Mutex::default(),
            name,
            options,
            backend,
        })
    }

    /// The languages that the pool runs: those of its options that its containers have.
    pub(crate) fn languages(&self) -> Vec<Language> {
        self.languages.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn name(&self) -> &PoolName {
        &self.name
    }

    pub(crate) fn options(&self) -> &PoolOptions {
        &self.options
    }

    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// What the jobs of the pool's tenants move.
    pub(crate) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Permits to run a job.
    pub(crate) fn slots(&self) -> &Arc<Semaphore> {
        &self.slots
    }

    /// Whether the pool can run jobs, and every change of this.
    pub(crate) fn condition(&self) -> watch::Receiver<Condition> {
        self.condition.subscribe()
    }

    /// Whether the warm containers were ready once, with their sandboxes.
    pub(crate) fn warm(&self) -> watch::Receiver<bool> {
        self.warm.subscribe()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a container for a job of this tenant. Cancel-safe.
    ///
    /// # Errors
    /// [`Error::Busy`] if none became free in time. The background task continues to make one.
    pub(crate) async fn acquire(self: &Arc<Self>, tenant: &TenantName) -> Result<(PooledContainer, Warmth), Error> {
        let waiting = {
            let mut state = self.state();
            if state.closed {
                return Err(Error::Closed);
            }
            match state.take(tenant, self.options.slots() as usize) {
                Some(member) => {
                    state.busy += 1;
                    Ok(member)
                }
                None => {
                    let (tx, rx) = oneshot::channel();
                    state.waiters.push_back(Waiter { tenant: tenant.clone(), tx });
                    Err(rx)
                }
            }
        };
        self.wake.notify_one();
        match waiting {
            Ok(member) => Ok((PooledContainer::new(member, Arc::clone(self), tenant), Warmth::Warm)),
            Err(rx) => match tokio::time::timeout(self.options.acquire_within.0, rx).await {
                Ok(Ok(held)) => Ok((held, Warmth::Cold)),
                Ok(Err(_)) => Err(Error::Closed),
                Err(_) => Err(Error::Busy(self.options.acquire_within.0)),
            },
        }
    }

    /// Gives a container to a job that waits for one, or else puts it among the idle ones.
    fn place(self: &Arc<Self>, mut member: Member) {
        let mut state = self.state();
        if state.closed || member.conn.closed().is_cancelled() {
            drop(state);
            return self.destroy(member, "closed");
        }
        while let Some(waiter) = state.waiter_for(&member) {
            state.busy += 1;
            let held = PooledContainer::new(member, Arc::clone(self), &waiter.tenant);
            drop(state);
            match waiter.tx.send(held) {
                Ok(()) => return,
                // The job has stopped waiting. The container is taken back first, because dropping the loan would put
                // it here again.
                Err(mut held) => match held.take_unused() {
                    Some(back) => {
                        state = self.state();
                        state.busy -= 1;
                        member = back;
                    }
                    None => return,
                },
            }
        }
        state.idle.push(member);
        drop(state);
        self.wake.notify_one();
    }

    /// Removes a container in the background.
    fn destroy(self: &Arc<Self>, mut member: Member, why: &'static str) {
        tracing::debug!(pool = %self.name, container = member.container.name(), why, "removing a container");
        member.conn.close(why);
        self.tasks.spawn(async move { member.container.destroy().await });
        self.wake.notify_one();
    }

    /// Whether jobs may run behind the outer wall alone.
    fn one_wall_is_enough(&self) -> bool {
        self.options.reuse == Reuse::Job || self.backend.has_own_kernel()
    }

    /// Whether the pool's containers have no inner wall.
    pub(crate) fn lacks_wall(&self) -> bool {
        self.metrics.unwalled.get() != 0
    }

    /// The reuse policy for a container. Without an inner wall it is always `job`, whatever is configured.
    fn reuse(&self, member: &Member) -> Reuse {
        if member.nested { self.options.reuse } else { Reuse::Job }
    }

    /// Closes the pool: jobs that wait are sent away, idle containers are removed, and lent ones are removed when they
    /// come back.
    pub(crate) fn close(self: &Arc<Self>) {
        let idle = {
            let mut state = self.state();
            state.closed = true;
            state.waiters.clear();
            std::mem::take(&mut state.idle)
        };
        self.closed.cancel();
        idle.into_iter().for_each(|member| self.destroy(member, "the worker stops"));
    }

    fn next_serial(&self) -> u64 {
        self.serial.fetch_add(1, Ordering::Relaxed)
    }
}
