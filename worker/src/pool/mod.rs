//! A pool: containers of one spec, made ahead in the background, lent to one job (or session) at a time.
//!
//! ```text
//!            refill                acquire                 give back
//!  (absent) ───────▶ idle, unbound ───────▶ lent (bound) ───────────▶ idle, bound to its tenant ──▶ retired
//!                                              │ keep: a session has it                │ no memory for more such
//!                                              └─ broken: destroyed                    └─ evicted, least recently used first
//! ```
//!
//! The warm ones are kept whatever tenants hold. Those that nobody waits for yet are made while no job wants the machine.
//!
//! [`Pool::acquire`] takes an idle container without waiting for anything; only when there is none it waits for the
//! background to make one. What is destroyed is destroyed off the job's path, too.

mod choice;
mod maintain;
mod member;
mod plan;
mod pooled;
mod proof;
mod state;
mod traffic;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thermae_schemas::{PoolName, TenantName, WorkerId};
use tokio::sync::{Notify, Semaphore, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::backend::Backend;
use crate::metrics::{Metrics, PoolMetrics};
use crate::options::{PoolOptions, Reuse};

use member::Member;
pub(crate) use pooled::PooledContainer;
use state::{State, Waiter};
pub(crate) use traffic::Traffic;

/// What can go wrong with taking a container.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Error {
    /// None became free, or could be made, in time.
    #[error("no container became free within {} ms", .0.as_millis())]
    Busy(Duration),
    /// The pool is closed.
    #[error("the pool is closed")]
    Closed,
}

/// Whether a pool is of use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Condition {
    /// It makes its first containers.
    Starting,
    /// It has containers, and takes jobs.
    Ready,
    /// It has none and can't make any: why.
    Unhealthy(String),
    /// The machine allows no inner wall, and nobody has said that one wall is enough: why there is none.
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
    /// For tenants' idle containers, in bytes.
    bound_memory: u64,
    wake: Notify,
    serial: Arc<AtomicU64>,
    condition: watch::Sender<Condition>,
    /// Whether its warm containers stood once.
    warm: watch::Sender<bool>,
    /// Whether jobs run as soon as one container stands.
    early: bool,
    tasks: TaskTracker,
    closed: CancellationToken,
    metrics: PoolMetrics,
}

/// Who a pool belongs to.
#[derive(Clone)]
pub(crate) struct Owner {
    /// The worker.
    pub worker: WorkerId,
    /// Its fleet.
    pub fleet: String,
    /// Counts all its containers.
    pub serial: Arc<AtomicU64>,
    /// Where the pool's tasks run.
    pub tasks: TaskTracker,
    /// Whether jobs run as soon as one container stands, and not only once the warm ones do.
    pub early: bool,
    /// Memory for a pool's idle containers of tenants, where its options don't say, in bytes.
    pub bound_memory: u64,
}

impl Pool {
    /// A pool that is empty until [`Pool::run`] runs.
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
            name,
            options,
            backend,
        })
    }

    /// Its name.
    pub(crate) fn name(&self) -> &PoolName {
        &self.name
    }

    /// Its options.
    pub(crate) fn options(&self) -> &PoolOptions {
        &self.options
    }

    /// Its backend.
    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// What its tenants' jobs move.
    pub(crate) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Permits to run a job.
    pub(crate) fn slots(&self) -> &Arc<Semaphore> {
        &self.slots
    }

    /// Whether it is of use, and every change of that.
    pub(crate) fn condition(&self) -> watch::Receiver<Condition> {
        self.condition.subscribe()
    }

    /// Whether its warm containers stand, their sandboxes made ahead, or once stood.
    pub(crate) fn warm(&self) -> watch::Receiver<bool> {
        self.warm.subscribe()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a container for a job of this tenant. Cancel-safe.
    ///
    /// # Errors
    /// [`Error::Busy`] when none became free in time; the background goes on trying to make one.
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

    /// Puts a member where it is of most use: to whoever waits for one, else among the idle ones.
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
                // It had given up: what it was sent is taken back before its drop would put it here again.
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

    /// Takes a member away, off everybody's path.
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

    /// Whether its containers have no inner wall.
    pub(crate) fn lacks_wall(&self) -> bool {
        self.metrics.unwalled.get() != 0
    }

    /// Reuse policy; `job` where the machine allows no inner wall, whatever was configured.
    fn reuse(&self, member: &Member) -> Reuse {
        if member.nested { self.options.reuse } else { Reuse::Job }
    }

    /// Closes it: waiters are sent away, idle containers are removed, lent ones as they come back.
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

/// Whether a container was ready when a job came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Warmth {
    /// It was.
    Warm,
    /// The job waited for it.
    Cold,
}
