//! Takes jobs from RabbitMQ. Each lane (submit queue) has one consumer, which starts when a tenant first uses the lane.
//!
//! ```text
//!  submit.unrouted ──▶ unrouted ──┬─▶ Lanes::ensure (journal, declare, consume) ──▶ published again, now routed
//!                                 ├─▶ cancels, questions, requests to sessions
//!                                 └─▶ refused, answered, acknowledged
//!  submit.<tenant>.rest ──▶ rest: the same, for one tenant that sent too much of it
//!  submit.<lane>   ──▶ lane task ─▶ validate ─┬─▶ the dispatcher
//!                                             └─▶ refused, answered, acknowledged
//!  submit.lanes, submit.rests ──▶ journals: which queues exist, for the next scheduler
//! ```
//!
//! A lane holds no more jobs in memory than its window, which shrinks if there are many lanes. All other jobs wait in
//! RabbitMQ. A lane that is not used for a long time is deleted (`consume`).

mod consume;
mod journal;
mod rest;
mod stray;
mod unrouted;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use thermae_backplane::bus::{Delivery, Forged, QueueSpec};
use thermae_schemas::{PoolName, TenantName, names};
use tokio::sync::{OnceCell, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::answer::acknowledge;
use crate::context::Context;
use crate::epochs;
use crate::error::Trouble;
use crate::fleet::{FleetView, remember_pool};
use crate::head::{Head, Held};
use crate::known::Known;
use crate::lane::Lane;
use crate::validate::{self, Refusal};

/// All lanes that are consumed. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Lanes(Arc<Inner>);

struct Inner {
    ctx: Context,
    arrivals: mpsc::Sender<Head>,
    fleet: watch::Sender<Arc<FleetView>>,
    lanes: Mutex<HashMap<Lane, State>>,
    /// Whether the consumers of the known lanes have started. From then on, a lane in the journal is consumed as soon
    /// as it is known.
    begun: AtomicBool,
    /// Idle lanes that were deleted. A journal snapshot that still has one of them is outdated.
    given_up: Mutex<HashSet<Lane>>,
    /// Tenants that have a queue of their own for everything but jobs.
    rests: Known<TenantName>,
    /// Locked while a message is routed into a lane, and while a lane is deleted.
    routing: tokio::sync::Mutex<()>,
}

struct State {
    /// Set once the lane is in the journal and its queue exists.
    ready: Arc<OnceCell<()>>,
    /// Cancelled to end the lane's consumer.
    consumer: CancellationToken,
    /// Set when a message is routed into the lane from the unrouted queue. Cleared before the lane is deleted.
    used: Arc<AtomicBool>,
}

impl State {
    fn new(ready: OnceCell<()>, ctx: &Context) -> Self {
        Self { ready: Arc::new(ready), consumer: ctx.stop.child_token(), used: Arc::default() }
    }
}

impl Lanes {
    pub(crate) fn new(ctx: Context, arrivals: mpsc::Sender<Head>, fleet: watch::Sender<Arc<FleetView>>) -> Self {
        let (lanes, given_up, routing) = (Mutex::default(), Mutex::default(), tokio::sync::Mutex::default());
        let begun = AtomicBool::new(false);
        let rests = Known::default();
        Self(Arc::new(Inner { ctx, arrivals, fleet, lanes, begun, given_up, rests, routing }))
    }

    /// Consumes the lanes in the journal and the unrouted queue, until this scheduler no longer leads.
    pub(crate) async fn run(self) -> Result<(), Trouble> {
        epochs::look(&self.0.ctx).await?;
        journal::read(&self).await?;
        // All lanes must be known before the first one starts, because they share the memory for waiting jobs.
        self.0.begun.store(true, Ordering::Relaxed);
        self.list().iter().for_each(|lane| self.begin(lane));
        self.0.ctx.spawn_for_good("journal of lanes", journal::watch(self.clone()));
        rest::restore(&self).await?;
        unrouted::serve(&self, QueueSpec::unrouted()).await
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Lane, State>> {
        self.0.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All known lanes.
    pub(crate) fn list(&self) -> Vec<Lane> {
        self.lock().keys().cloned().collect()
    }

    /// Makes sure that a lane is in the journal, so that the next scheduler finds it, and that its queue exists and is
    /// consumed.
    async fn ensure(&self, lane: &Lane) -> Result<(), Trouble> {
        let ready = {
            let mut lanes = self.lock();
            let state = lanes.entry(lane.clone()).or_insert_with(|| State::new(OnceCell::new(), &self.0.ctx));
            state.used.store(true, Ordering::Relaxed);
            state.ready.clone()
        };
        let made = ready.get_or_try_init(|| async {
            journal::remember(&self.0.ctx, lane).await?;
            self.declare(lane).await?;
            self.begin(lane);
            tracing::info!(%lane, "made a queue for the first job of this tenant, class and pool");
            Ok(())
        });
        made.await.map(drop)
    }

    async fn declare(&self, lane: &Lane) -> Result<(), Trouble> {
        let bus = &self.0.ctx.bus;
        bus.declare_queue(&QueueSpec::pool(&lane.pool, thermae_schemas::OLDEST)).await?;
        bus.declare_queue(&QueueSpec::submit(&lane.tenant, lane.class, &lane.pool)).await?;
        Ok(())
    }

    fn given_up(&self) -> std::sync::MutexGuard<'_, HashSet<Lane>> {
        self.0.given_up.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a lane from the journal. `fresh` means that its entry is newer than the last snapshot.
    fn restore(&self, lane: Lane, fresh: bool) {
        if fresh {
            self.given_up().remove(&lane);
        } else if self.given_up().contains(&lane) {
            return;
        }
        let mut new = false;
        self.lock().entry(lane.clone()).or_insert_with(|| {
            new = true;
            State::new(OnceCell::from(()), &self.0.ctx)
        });
        if new && self.0.begun.load(Ordering::Relaxed) {
            self.begin(&lane);
        }
    }

    /// Starts a lane's consumer.
    fn begin(&self, lane: &Lane) {
        remember_pool(&self.0.fleet, &lane.pool);
        let Some(stop) = self.lock().get(lane).map(|state| state.consumer.clone()) else { return };
        self.0.ctx.metrics.lanes(self.lock().len());
        self.0.ctx.spawn("lane", self.clone().consume(lane.clone(), stop));
    }

    /// Ends a lane's consumer, so that everything it holds goes back to the queue, and starts a new one.
    pub(crate) fn restart(&self, lane: &Lane) {
        if let Some(state) = self.lock().get_mut(lane) {
            state.consumer.cancel();
            state.consumer = self.0.ctx.stop.child_token();
        }
        self.begin(lane);
    }

    /// Checks a message, and passes it on. Returns how long the lane must wait before the next one.
    async fn take(&self, lane: &Lane, delivery: Delivery, held: &Held) -> Result<Duration, Trouble> {
        let ctx = &self.0.ctx;
        let message = &delivery.message;
        match ctx.identity.sender(message, names::SUBMIT, |_| lane.to_string()) {
            Ok(_) => {}
            Err(Forged::Unsigned(_)) => {
                let why = validate::unsigned(&ctx.options, message);
                return self.refuse(&lane.tenant, Some(&lane.pool), why, &delivery).await;
            }
            Err(why) => {
                ctx.forged(message, &why);
                acknowledge(&delivery).await;
                return Ok(Duration::ZERO);
            }
        }
        ctx.metrics.submitted(lane.class);
        let fleet = ctx.fleet.borrow().clone();
        match validate::check(&ctx.options, &fleet, lane, &delivery.message) {
            Ok(job) => {
                let mut head = Head::new(lane.clone(), job, delivery);
                head.held = Some(held.clone());
                self.0.arrivals.send(head).await.map_err(|_| Trouble::Stopped)?;
                // What the tenant owes for earlier jobs, which were late or had a recorded outcome.
                Ok(ctx.allowance.wait(&lane.tenant, Instant::now()))
            }
            Err(why) => self.refuse(&lane.tenant, Some(&lane.pool), why, &delivery).await,
        }
    }

    /// Refuses a message, and charges its tenant. Returns how long to wait before that tenant's next one.
    async fn refuse(
        &self,
        tenant: &TenantName,
        pool: Option<&PoolName>,
        why: Refusal,
        delivery: &Delivery,
    ) -> Result<Duration, Trouble> {
        let wait = self.0.ctx.charge(tenant, delivery.message.body.len());
        self.0.ctx.refuse(tenant, pool, why, delivery).await?;
        Ok(wait)
    }
}
