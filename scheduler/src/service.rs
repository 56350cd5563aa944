//! The scheduler as a whole: its state from start to end, whether it leads or not.

use std::sync::Arc;

use futures::future::BoxFuture;
use thermae_backplane::bus::{Identity, SharedBus};
use thermae_backplane::registry::SharedRegistry;
use thermae_schemas::PROTOCOL;
use thermae_service::http::{Condition, Health};
use thermae_service::supervise::{Panicked, caught};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::context::{self, Context};
use crate::error::{Error, Trouble};
use crate::fleet::{FleetView, Watcher};
use crate::lead::Leadership;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::outage::Outages;

/// A scheduler. It leads, or stands by while another one leads.
pub struct Service {
    options: Arc<Options>,
    bus: SharedBus,
    registry: SharedRegistry,
    metrics: Metrics,
    on_bus: Condition,
    on_registry: Condition,
    on_leader: Condition,
    newest: u32,
}

impl Service {
    /// Checks the options, and registers the metrics and the health conditions `bus`, `registry` and `leader`.
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
            newest: PROTOCOL,
        })
    }

    /// Reads the protocol up to this version, as the scheduler of a later release will: so its tests have two versions
    /// before there are two.
    #[must_use]
    pub fn reading(self, newest: u32) -> Self {
        Self { newest, ..self }
    }

    /// Runs until the token is cancelled. While a server is away, it waits. At the end, all unacknowledged messages go
    /// back to their queues.
    ///
    /// # Errors
    /// The broker refuses for good: wrong credentials, or queues with other properties. The registry holds data that
    /// can't be read. An essential task panicked.
    pub fn run(self, stop: CancellationToken) -> BoxFuture<'static, Result<(), Error>> {
        // Boxed here, so that this crate compiles the scheduler, and not each crate that runs one.
        Box::pin(self.lead_or_stand_by(stop))
    }

    async fn lead_or_stand_by(self, stop: CancellationToken) -> Result<(), Error> {
        // However this function ends, its tasks end, too.
        let stop = stop.child_token();
        let _guard = stop.clone().drop_guard();
        let (fleet, seen) = watch::channel(Arc::new(FleetView::new(self.newest)));
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
            identity: Arc::new(Identity::new(self.bus.as_ref(), &self.options.fleet_users)),
            options: self.options.clone(),
            metrics: self.metrics.clone(),
            who: format!("scheduler-{}", uuid::Uuid::new_v4().simple()).into(),
            fleet: seen,
            outages,
            allowance: context::allowance(),
            first_epoch: Arc::default(),
            tasks: TaskTracker::new(),
            drained: CancellationToken::new(),
            failed: CancellationToken::new(),
            stop: stop.clone(),
        };
        // Without this, the first jobs would be refused for naming pools that no worker seems to serve.
        match ctx.persist(|| watcher.refresh()).await {
            Ok(()) => {}
            Err(Trouble::Stopped) => return Ok(()),
            Err(Trouble::Bus(error)) => return Err(error.into()),
            Err(Trouble::Registry(error)) => return Err(error.into()),
        }
        let tasks = TaskTracker::new();
        let (fell, mut fallen) = mpsc::channel(2);
        tasks.spawn(watched("watcher", watcher.run(stop.clone()), stop.clone(), fell.clone()));
        let readiness = readiness(ctx.clone(), self.on_bus, self.on_registry, stop.clone());
        tasks.spawn(watched("readiness", readiness, stop.clone(), fell));
        let leadership = Leadership { ctx, fleet, condition: self.on_leader };
        let led = match caught("leadership", leadership.run(stop.clone())).await {
            Ok(led) => led,
            Err(panicked) => Err(panicked.into()),
        };
        stop.cancel();
        tasks.close();
        tasks.wait().await;
        match fallen.try_recv() {
            Ok(panicked) => led.and(Err(panicked.into())),
            Err(_) => led,
        }
    }
}

/// Runs an essential task. If it panics, the whole scheduler ends, so that its supervisor can start it again.
async fn watched(
    task: &'static str,
    future: impl Future<Output = ()>,
    stop: CancellationToken,
    fell: mpsc::Sender<Panicked>,
) {
    if let Err(panicked) = caught(task, future).await {
        let _ = fell.try_send(panicked);
        stop.cancel();
    }
}

/// Updates the health conditions of the bus and the registry.
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
