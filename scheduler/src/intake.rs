//! Taking jobs from RabbitMQ: one consumer per submit queue (a lane), made when a tenant first uses it.
//!
//! ```text
//!  submit.unrouted ──▶ unrouted ──▶ Lanes::ensure (journal, declare, consume) ──▶ published again, now routed
//!  submit.<lane>   ──▶ lane task ─▶ validate ─┬─▶ the dispatcher
//!                                             └─▶ refused, answered, acknowledged
//!  submit.lanes    ──▶ journal: which lanes exist, for the next scheduler
//! ```
//!
//! A lane's window bounds what is in memory; all else waits in RabbitMQ.

mod journal;
mod unrouted;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use thermae_backplane::bus::{Delivery, QueueSpec};
use tokio::sync::{OnceCell, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::answer::acknowledge;
use crate::context::Context;
use crate::error::Trouble;
use crate::fleet::{Fleet, remember_pool};
use crate::head::Head;
use crate::lane::Lane;
use crate::outage::Backoff;
use crate::validate;

/// The lanes that are consumed. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Lanes(Arc<Inner>);

struct Inner {
    ctx: Context,
    arrivals: mpsc::Sender<Head>,
    fleet: watch::Sender<Arc<Fleet>>,
    lanes: Mutex<HashMap<Lane, State>>,
}

struct State {
    /// Set once the lane is in the journal and its queue exists.
    ready: Arc<OnceCell<()>>,
    /// Ends its consumer.
    consumer: CancellationToken,
}

impl Lanes {
    pub(crate) fn new(ctx: Context, arrivals: mpsc::Sender<Head>, fleet: watch::Sender<Arc<Fleet>>) -> Self {
        Self(Arc::new(Inner { ctx, arrivals, fleet, lanes: Mutex::default() }))
    }

    /// Consumes what the journal knows, and watches the unrouted queue, until this scheduler leads no more.
    pub(crate) async fn run(self) -> Result<(), Trouble> {
        journal::read(&self).await?;
        self.0.ctx.tasks.spawn(journal::watch(self.clone()));
        unrouted::run(self).await
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Lane, State>> {
        self.0.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All lanes known.
    pub(crate) fn list(&self) -> Vec<Lane> {
        self.lock().keys().cloned().collect()
    }

    /// Makes sure that a lane's queue exists and is consumed, and that the next scheduler will know it.
    async fn ensure(&self, lane: &Lane) -> Result<(), Trouble> {
        let ready = {
            let mut lanes = self.lock();
            let state = lanes
                .entry(lane.clone())
                .or_insert_with(|| State { ready: Arc::default(), consumer: self.0.ctx.stop.child_token() });
            state.ready.clone()
        };
        let made = ready.get_or_try_init(|| async {
            journal::remember(&self.0.ctx, std::slice::from_ref(lane)).await?;
            self.declare(lane).await?;
            self.begin(lane);
            tracing::info!(%lane, "a tenant's first job of its kind: queue made");
            Ok(())
        });
        made.await.map(drop)
    }

    async fn declare(&self, lane: &Lane) -> Result<(), Trouble> {
        let bus = &self.0.ctx.bus;
        bus.declare_queue(&QueueSpec::pool(&lane.pool)).await?;
        bus.declare_queue(&QueueSpec::submit(&lane.tenant, lane.class, &lane.pool)).await?;
        Ok(())
    }

    /// A lane that the journal knows.
    fn restore(&self, lane: Lane) {
        let mut new = false;
        self.lock().entry(lane.clone()).or_insert_with(|| {
            new = true;
            State { ready: Arc::new(OnceCell::from(())), consumer: self.0.ctx.stop.child_token() }
        });
        if new {
            self.begin(&lane);
        }
    }

    /// Starts a lane's consumer.
    fn begin(&self, lane: &Lane) {
        remember_pool(&self.0.fleet, &lane.pool);
        let Some(stop) = self.lock().get(lane).map(|state| state.consumer.clone()) else { return };
        self.0.ctx.metrics.lanes(self.lock().len());
        self.0.ctx.tasks.spawn(self.clone().consume(lane.clone(), stop));
    }

    /// Ends a lane's consumer, so that all it holds goes back to the queue, and starts a new one.
    pub(crate) fn restart(&self, lane: &Lane) {
        if let Some(state) = self.lock().get_mut(lane) {
            state.consumer.cancel();
            state.consumer = self.0.ctx.stop.child_token();
        }
        self.begin(lane);
    }

    async fn consume(self, lane: Lane, stop: CancellationToken) {
        let ctx = &self.0.ctx;
        let spec = QueueSpec::submit(&lane.tenant, lane.class, &lane.pool);
        let mut pause = Backoff::default();
        loop {
            let opened = tokio::select! {
                () = stop.cancelled() => return,
                opened = ctx.consume(&spec, ctx.options.window) => opened,
            };
            let Ok(mut consumer) = opened else { return };
            loop {
                let delivery = tokio::select! {
                    biased;
                    () = stop.cancelled() => {
                        if ctx.stop.is_cancelled() {
                            // What the dispatcher has half done can still be acknowledged.
                            ctx.drained.cancelled().await;
                        }
                        return;
                    }
                    delivery = consumer.next() => delivery,
                };
                let Some(delivery) = delivery else { break };
                if self.take(&lane, delivery).await.is_err() {
                    return;
                }
                pause.reset();
            }
            tracing::warn!(%lane, "submit queue is gone, declaring it anew");
            pause.wait().await;
        }
    }

    /// Checks a message and hands it on.
    async fn take(&self, lane: &Lane, delivery: Delivery) -> Result<(), Trouble> {
        let ctx = &self.0.ctx;
        let message = &delivery.message;
        if message.key != lane.to_string() || message.came_as_dead_letter() {
            // By way of a CC header or a dead letter RabbitMQ lets a tenant write into another's queue.
            tracing::warn!(%lane, key = message.key, "a message that its tenant did not send here is dropped");
            ctx.metrics.forged();
            acknowledge(&delivery).await;
            return Ok(());
        }
        ctx.metrics.submitted(lane.class);
        let fleet = ctx.fleet.borrow().clone();
        match validate::check(&ctx.options, &fleet, lane, &delivery.message) {
            Ok(job) => {
                let head = Head::new(lane.clone(), job, delivery);
                self.0.arrivals.send(head).await.map_err(|_| Trouble::Stopped)
            }
            Err(refusal) => ctx.refuse(&lane.tenant, Some(&lane.pool), refusal, &delivery).await,
        }
    }
}
