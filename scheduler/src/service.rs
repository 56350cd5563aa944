//! The scheduler as a whole.

use std::sync::Arc;

use thermae_backplane::bus::SharedBus;
use thermae_backplane::registry::SharedRegistry;
use thermae_service::http::{Condition, Health};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::context::Context;
use crate::error::Error;
use crate::fleet::{Fleet, Watcher};
use crate::lead::Leadership;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::outage::Outages;

/// A scheduler: it leads, or stands by. Several may run.
pub struct Service {
    options: Arc<Options>,
    bus: SharedBus,
    registry: SharedRegistry,
    metrics: Metrics,
    on_bus: Condition,
    on_registry: Condition,
    on_leader: Condition,
}

impl Service {
    /// Checks the options and registers metrics and the conditions `bus`, `registry` and `leader`.
    ///
    /// # Errors
    /// [`Error::Options`], or [`Error::Metrics`] for a second scheduler on one metrics registry.
    pub fn new(
        options: Options,
        bus: SharedBus,
        registry: SharedRegistry,
        metrics: &prometheus::Registry,
        health: Health,
    ) -> Result<Self, Error> {
        options.check()?;
        Ok(Self {
            options: Arc::new(options),
            bus,
            registry,
            metrics: Metrics::new(metrics)?,
            on_bus: health.condition("bus"),
            on_registry: health.condition("registry"),
            on_leader: health.condition("leader"),
        })
    }

    /// Runs until the token is cancelled. Servers that are away are waited for. What it holds unacknowledged when it ends goes
    /// back to its queues.
    ///
    /// # Errors
    /// The broker refuses for good: wrong credentials, or queues of other properties.
    pub async fn run(self, stop: CancellationToken) -> Result<(), Error> {
        // Whatever ends this, by whichever way, ends its tasks too.
        let stop = stop.child_token();
        let _guard = stop.clone().drop_guard();
        let (fleet, seen) = watch::channel(Arc::new(Fleet::default()));
        let outages = Outages::default();
        let watcher = Watcher {
            registry: self.registry.clone(),
            options: self.options.clone(),
            fleet: fleet.clone(),
            metrics: self.metrics.clone(),
            outages: outages.clone(),
        };
        let ctx = Context {
            bus: self.bus.clone(),
            registry: self.registry.clone(),
            options: self.options.clone(),
            metrics: self.metrics.clone(),
            fleet: seen,
            outages,
            tasks: TaskTracker::new(),
            drained: CancellationToken::new(),
            stop: stop.clone(),
        };
        // Before the first job is checked, the pools that workers serve must be known.
        if ctx.persist(|| watcher.refresh()).await.is_err() {
            return Ok(());
        }
        let tasks = TaskTracker::new();
        tasks.spawn(watcher.run(stop.clone()));
        tasks.spawn(readiness(ctx.clone(), self.on_bus, self.on_registry, stop.clone()));
        let who = format!("scheduler-{}", uuid::Uuid::new_v4().simple());
        let led = Leadership { ctx, who, fleet, condition: self.on_leader }.run(stop.clone()).await;
        stop.cancel();
        tasks.close();
        tasks.wait().await;
        led
    }
}

/// Keeps two conditions true to life.
async fn readiness(ctx: Context, bus: Condition, registry: Condition, stop: CancellationToken) {
    loop {
        if ctx.bus.is_connected() {
            bus.ready();
        } else {
            bus.not_ready("not connected to the broker");
        }
        match ctx.registry.check().await {
            Ok(()) => registry.ready(),
            Err(error) => registry.not_ready(error.to_string()),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(ctx.options.tick.duration()) => {}
        }
    }
}
