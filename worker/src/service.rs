//! The whole worker. It is made from options, runs until it is told to drain, and then removes everything that it made.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use futures::future::BoxFuture;
use thermae_backplane::bus::SharedBus;
use thermae_backplane::registry::SharedRegistry;
use thermae_schemas::{OLDEST, PROTOCOL, WorkerId, WorkerState};
use thermae_service::backoff::Backoff;
use thermae_service::health::{self, Health};
use thermae_service::supervise::{Panicked, caught};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::artifacts::Artifacts;
use crate::audit::Audit;
use crate::backend::{Backend, Backends, MakeDocker, SocketDir};
use crate::consume;
use crate::context::Context;
use crate::error::Error;
use crate::heartbeat::Heart;
use crate::heavy::Heavy;
use crate::memory;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::orphans;
use crate::pool::{Owner, Pool};
use crate::requests::Requests;
use crate::retention;
use crate::running::Table;
use crate::sessions::Sessions;
use crate::shelf::Shelf;
use crate::stored;
use crate::tools::{Approvals, Capable, Client, Keeper};
use crate::watch::{refusal, watch_bus, watch_pools};

/// Time, after the grace of the drain, for killing the jobs that still run, and for recording and publishing their
/// outcomes.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Time after that for ending sessions, containers and connections.
const CLOSING: Duration = Duration::from_secs(10);

/// Longest pause between two attempts to declare the worker's queues.
const AGAIN: Duration = Duration::from_millis(500);

/// Parts of a worker that the caller can provide.
#[derive(Default)]
pub struct Parts {
    /// Makes the containers of all pools, whatever the options say.
    pub backend: Option<Arc<dyn Backend>>,
    /// Makes the Docker backend if a pool's options name it. Without it, such options can't be used.
    pub docker: Option<MakeDocker>,
    /// The store for artifacts. Without it, the store that the options name is opened, and this process does not serve
    /// its URLs.
    pub artifacts: Option<Artifacts>,
    /// Whether a pool takes jobs as soon as one of its containers is ready, because no other worker could run them.
    /// Otherwise, a pool takes jobs, and is announced, once its warm containers are ready. In both cases, the worker
    /// reports that it is ready only then.
    pub early: bool,
}

/// A worker. [`Service::run`] starts it.
pub struct Service {
    ctx: Arc<Context>,
    client: Arc<Client>,
    approvals: Arc<Approvals>,
    sockets: SocketDir,
    tasks: TaskTracker,
    state: watch::Sender<WorkerState>,
    bus: health::Condition,
    registry: health::Condition,
    pools: health::Condition,
}

impl Service {
    /// Makes a worker. It does nothing until it is run.
    ///
    /// # Errors
    /// The options can't be used on this machine.
    pub fn new(
        options: Options,
        bus: SharedBus,
        registry: SharedRegistry,
        metrics: &prometheus::Registry,
        health: Health,
    ) -> Result<Self, Error> {
        Self::with_parts(options, bus, registry, metrics, health, Parts::default())
    }

    /// Like [`Service::new`], with parts that the caller provides.
    ///
    /// # Errors
    /// As for [`Service::new`].
    pub fn with_parts(
        options: Options,
        bus: SharedBus,
        registry: SharedRegistry,
        metrics: &prometheus::Registry,
        health: Health,
        parts: Parts,
    ) -> Result<Self, Error> {
        options.validate()?;
        let artifacts = parts.artifacts.map_or_else(|| Artifacts::open(&options.artifacts, None), Ok)?;
        let metrics = Metrics::new(metrics)?;
        let id = WorkerId::boot(options.name.as_deref().unwrap_or(&host_name()));
        let sockets = SocketDir::open(options.socket_dir.as_deref(), id.as_str()).map_err(Error::Sockets)?;
        let tasks = TaskTracker::new();
        let owner = Owner {
            worker: id.clone(),
            fleet: options.fleet.clone(),
            serial: Arc::new(AtomicU64::new(1)),
            tasks: tasks.clone(),
            early: parts.early,
            bound_memory: 0,
        };
        let mut backends = Backends {
            options: &options,
            sockets: &sockets,
            tasks: &tasks,
            given: parts.backend,
            docker: parts.docker,
            made: [None, None],
        };
        let mut pools = BTreeMap::new();
        for (name, pool) in &options.pools {
            let backend = backends.get(name, pool.backend)?;
            let bound_memory = memory::for_bound(pool.backend) / options.pools.len() as u64;
            let owner = Owner { bound_memory, ..owner.clone() };
            pools.insert(name.clone(), Pool::new(name.clone(), pool.clone(), backend, owner, &metrics));
        }
        let heavy: Arc<Heavy> = Arc::default();
        let keeper = Keeper::new(options.answers.clone(), metrics.clone());
        let client = Arc::new(Client::new(Arc::clone(&bus), id.clone(), pools.clone(), keeper));
        let counter = metrics.approvals.clone();
        let approvals = Arc::new(Approvals::new(Arc::clone(&bus), id.clone(), pools.clone(), counter));
        let file = options.audit.file.clone().unwrap_or_default();
        let audit = Audit::open(&options.audit, &id).map_err(|source| Error::Audit { file, source })?;
        let trust = options.tokens.trust().map(Arc::new);
        if let Some(trust) = &trust {
            // Files that can't be read are found now, and not with the first job that has a token.
            trust.verifier()?;
        }
        let ctx = Arc::new(Context {
            id,
            audit,
            trust,
            bus,
            registry,
            artifacts,
            metrics,
            table: Table::default(),
            pulse: Arc::default(),
            provider: Arc::new(Capable::new(client.clone(), Arc::clone(&approvals), Arc::clone(&heavy))),
            shelf: Shelf::default(),
            heavy,
            pools,
            registered: watch::Sender::new(false),
            draining: CancellationToken::new(),
            stop: CancellationToken::new(),
            abort: CancellationToken::new(),
            options,
        });
        Ok(Self {
            ctx,
            client,
            approvals,
            sockets,
            tasks,
            state: watch::Sender::new(WorkerState::Starting),
            bus: health.condition("bus"),
            registry: health.condition("registry"),
            pools: health.condition("pools"),
        })
    }

    /// The worker's id.
    pub fn id(&self) -> &WorkerId {
        &self.ctx.id
    }

    /// Runs the worker until `drain` is cancelled. Returns when every job has ended or was given back, and everything
    /// that the worker made is removed.
    ///
    /// # Errors
    /// [`Error::NoInnerWall`], or [`Error::Panicked`] if an essential task panicked and the worker drained. Everything
    /// else that fails at run time is tried again, and shows in the readiness conditions.
    pub fn run(self, drain: CancellationToken) -> BoxFuture<'static, Result<(), Error>> {
        // Boxed here, so that this crate compiles the worker, and not each crate that runs one.
        Box::pin(self.work(drain))
    }

    async fn work(self, drain: CancellationToken) -> Result<(), Error> {
        let ctx = &self.ctx;
        let drain = drain.child_token();
        let (told, mut fallen) = mpsc::channel(1);
        let vital = Vital { drain: drain.clone(), told };
        tracing::info!(worker = %ctx.id, version = env!("CARGO_PKG_VERSION"), "the worker starts");
        let late = CancellationToken::new();
        let (sessions_tasks, services) = (TaskTracker::new(), TaskTracker::new());
        let sessions = Sessions::new(Arc::clone(ctx), sessions_tasks.clone());
        let requests = Requests::new(Arc::clone(ctx), Arc::clone(&sessions), sessions_tasks.clone());
        let heart = Heart {
            ctx: Arc::clone(ctx),
            sessions: Arc::clone(&sessions),
            state: self.state.subscribe(),
            condition: self.registry.clone(),
        };
        services.spawn(vital.watch("heartbeat", heart.run(late.clone())));
        for pool in ctx.pools.values() {
            services.spawn(vital.watch("pool", Arc::clone(pool).run()));
        }
        services.spawn(vital.watch("pools' state", {
            let (ctx, state, condition) = (Arc::clone(ctx), self.state.clone(), self.pools.clone());
            async move { watch_pools(&ctx, &state, &condition).await }
        }));
        let (mut refused, refusal) = (None, refusal(ctx));
        tokio::pin!(refusal);
        let declared = tokio::select! {
            declared = drain.run_until_cancelled(self.declare()) => declared,
            error = &mut refusal => {
                refused = Some(error);
                None
            }
        };
        if declared.is_some() {
            services.spawn({
                let ctx = Arc::clone(ctx);
                async move { orphans::run(&ctx).await }
            });
            services.spawn({
                let (ctx, bus, late) = (Arc::clone(ctx), self.bus.clone(), late.clone());
                async move { watch_bus(&ctx, &bus, late).await }
            });
            services.spawn(
                vital.watch(
                    "control queue",
                    consume::control_queue(Arc::clone(ctx), Arc::clone(&requests), late.clone()),
                ),
            );
            if ctx.artifacts.is_lasting() {
                let (shelf, end) = (Arc::clone(ctx), late.clone());
                services.spawn(vital.watch("shelf", async move { shelf.shelf.run(&shelf, &end).await }));
                services.spawn(vital.watch("sweep", retention::run(Arc::clone(ctx), late.clone())));
                services.spawn(vital.watch("outcomes queue", stored::outcomes_queue(Arc::clone(ctx), late.clone())));
            }
            services.spawn(vital.watch(
                "calls queue",
                self.client.answers(Arc::clone(ctx), requests, Arc::clone(&self.approvals), late.clone()),
            ));
            let jobs = TaskTracker::new();
            for pool in ctx.pools.values() {
                for protocol in OLDEST..=PROTOCOL {
                    let queue = consume::pool_queue(Arc::clone(ctx), Arc::clone(pool), protocol);
                    jobs.spawn(vital.watch("pool queue", queue));
                }
            }
            let own = consume::worker_queue(Arc::clone(ctx), Arc::clone(&sessions), sessions_tasks.clone());
            jobs.spawn(vital.watch("worker queue", own));
            tokio::select! {
                () = drain.cancelled() => {}
                error = &mut refusal => refused = Some(error),
            }
            self.drain(&jobs, &sessions_tasks).await;
        }
        if let Some(error) = &refused {
            self.pools.not_ready(error.to_string());
        }
        self.close(&late, &services).await;
        match (fallen.try_recv(), refused) {
            (Ok(panicked), _) => Err(panicked.into()),
            (Err(_), refused) => refused.map_or(Ok(()), Err),
        }
    }

    /// Declares the worker's queues. Waits for the broker as long as necessary.
    async fn declare(&self) {
        let mut said = false;
        while let Err(e) = consume::declare(&self.ctx).await {
            self.bus.not_ready(e.to_string());
            if !std::mem::replace(&mut said, true) {
                tracing::warn!(error = %e, "waiting for the bus");
            }
            Backoff::steady(AGAIN).wait().await;
        }
        self.bus.ready();
    }

    /// Stops taking jobs, gives back those that have not started, waits for the others, and ends by force what does not
    /// end.
    async fn drain(&self, jobs: &TaskTracker, sessions: &TaskTracker) {
        let ctx = &self.ctx;
        tracing::info!(running = ctx.table.len(), grace_ms = ctx.options.drain_grace.as_millis(), "the worker drains");
        self.state.send_replace(WorkerState::Draining);
        self.pools.not_ready("draining");
        ctx.draining.cancel();
        jobs.close();
        sessions.close();
        let all = async {
            sessions.wait().await;
            jobs.wait().await;
        };
        tokio::pin!(all);
        if tokio::time::timeout(ctx.options.drain_grace.0, &mut all).await.is_ok() {
            return;
        }
        tracing::warn!(running = ctx.table.len(), "the drain grace is over; ending the jobs that still run");
        ctx.stop.cancel();
        if tokio::time::timeout(LAST_WORDS, &mut all).await.is_ok() {
            return;
        }
        tracing::error!(
            running = ctx.table.len(),
            "giving up; the fleet decides about the remaining jobs when their leases end"
        );
        ctx.abort.cancel();
        let _ = tokio::time::timeout(Duration::from_secs(1), &mut all).await;
    }

    /// Leaves the registry, removes every container and ends every task.
    async fn close(&self, late: &CancellationToken, services: &TaskTracker) {
        let ctx = &self.ctx;
        ctx.draining.cancel();
        late.cancel();
        ctx.pools.values().for_each(Pool::close);
        let goodbye = async {
            if let Err(e) = ctx.registry.leave(&ctx.id).await {
                tracing::warn!(error = %e, "can't tell the registry that this worker leaves; it will notice");
            }
        };
        services.close();
        self.tasks.close();
        let end = async {
            services.wait().await;
            goodbye.await;
            self.tasks.wait().await;
        };
        if tokio::time::timeout(CLOSING, end).await.is_err() {
            tracing::error!("not all containers could be removed; the next worker on this host removes the rest");
        }
        self.sockets.remove();
        tracing::info!(worker = %ctx.id, "the worker ended");
    }
}

/// Watches the tasks that a worker can't do without. If one of them panics, the worker drains and ends, so that its
/// supervisor starts it again.
struct Vital {
    drain: CancellationToken,
    told: mpsc::Sender<Panicked>,
}

impl Vital {
    /// Boxed, so that the compiler makes tokio's code for a task only once for all of them.
    fn watch(&self, task: &'static str, future: impl Future<Output = ()> + Send + 'static) -> BoxFuture<'static, ()> {
        let (drain, told) = (self.drain.clone(), self.told.clone());
        Box::pin(async move {
            if let Err(panicked) = caught(task, future).await {
                let _ = told.try_send(panicked);
                drain.cancel();
            }
        })
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
