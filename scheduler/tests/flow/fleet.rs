//! A fleet for tests: a scheduler, a client, and a worker that the test controls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use thermae_backplane::bus::{self, Delivery, Message, QueueSpec, SharedBus};
use thermae_backplane::record::{Answer, Finish, Start, Taker};
use thermae_backplane::registry::{
    self, Budget, Claim, Epoch, FinishRequest, JobKey, Keep, SharedRegistry, StartRequest,
};
use thermae_client::Client;
use thermae_scheduler::{Options, Service};
use thermae_schemas::{
    Event, EventBody, Heartbeat, Job, JobId, Language, Outcome, PoolCapacity, PoolName, Status, TenantName, WorkerId,
    WorkerState, names,
};
use thermae_service::http::Health;
use thermae_service::units::Millis;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) const LONG: Duration = Duration::from_secs(3600);

/// Newest version of the protocol that the schedulers of the tests read: one that no release speaks yet.
const NEWEST: u32 = 2;

const KEEP: Keep = Keep { outcome: LONG, record: LONG, budget: Budget { tenant: 1 << 30, all: 1 << 30 } };

pub(crate) fn tenant(name: &str) -> TenantName {
    TenantName::new(name).unwrap()
}

pub(crate) fn pool() -> PoolName {
    PoolName::new("default").unwrap()
}

pub(crate) fn worker_id(name: &str) -> WorkerId {
    WorkerId::new(name).unwrap()
}

/// A job with this id.
pub(crate) fn job(id: &str) -> Job {
    Job { id: JobId::new(id).unwrap(), ..Job::python("print(1 + 1)") }
}

/// Waits for something that must happen, and fails after two minutes.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), future).await.expect("it did not come")
}

/// Options with short times.
pub(crate) fn options() -> Options {
    Options {
        tick: Millis::from_millis(50),
        lead_ttl: Millis::from_millis(400),
        lead_renew: Millis::from_millis(100),
        record_grace: Millis::from_millis(50),
        worker_grace: Millis::from_millis(50),
        ..Options::default()
    }
}

/// Opens a new connection.
pub(crate) type Connect = Arc<dyn Fn() -> futures::future::BoxFuture<'static, SharedBus> + Send + Sync>;

/// A bus and a registry that outlive schedulers.
#[derive(Clone)]
pub(crate) struct Servers {
    pub(crate) bus: SharedBus,
    pub(crate) registry: SharedRegistry,
    pub(crate) connect: Connect,
}

impl Servers {
    /// The in-process bus and registry.
    pub(crate) fn new() -> Self {
        Self::on(Arc::new(registry::Local::new()))
    }

    /// The in-process bus, with this registry.
    pub(crate) fn on(registry: SharedRegistry) -> Self {
        let bus = Arc::new(bus::Local::new());
        let broker = bus.clone();
        let connect: Connect = Arc::new(move || {
            let bus: SharedBus = Arc::new(broker.connect());
            Box::pin(async move { bus })
        });
        Self { bus, registry, connect }
    }

    /// Starts a scheduler on a connection of its own.
    pub(crate) async fn scheduler(&self, options: Options) -> Scheduler {
        self.scheduler_on((self.connect)().await, options)
    }

    /// Starts a scheduler on this connection.
    pub(crate) fn scheduler_on(&self, bus: SharedBus, options: Options) -> Scheduler {
        let (metrics, health) = (prometheus::Registry::new(), Health::new());
        let service = Service::new(options, bus.clone(), self.registry.clone(), &metrics, health.clone())
            .expect("it can be made")
            .reading(NEWEST);
        let stop = CancellationToken::new();
        let task = tokio::spawn(service.run(stop.clone()));
        Scheduler { bus, metrics, health, stop, task }
    }

    pub(crate) async fn client(&self, name: &str) -> Client {
        thermae_backplane::declare_fleet(&*self.bus).await.unwrap();
        let bus = (self.connect)().await;
        Client::connect(bus, tenant(name), thermae_client::Options::default()).await.unwrap()
    }

    /// A ready worker of the default pool. It takes no jobs until the test calls [`Worker::take`] or [`Worker::work`].
    pub(crate) async fn worker(&self, name: &str, slots: u32) -> Worker {
        self.worker_of(name, slots, 1).await
    }

    /// As [`Servers::worker`], but the worker speaks this version of the protocol.
    pub(crate) async fn worker_of(&self, name: &str, slots: u32, protocol: u32) -> Worker {
        let worker = Worker {
            id: worker_id(name),
            protocol,
            slots,
            max_sessions: 8,
            sessions: Vec::new(),
            keep: KEEP,
            bus: (self.connect)().await,
            registry: self.registry.clone(),
        };
        // Repeated, as workers do: while another process makes a queue, RabbitMQ may refuse messages for it.
        persist(|| async {
            thermae_backplane::declare_fleet(&*self.bus).await?;
            for version in 1..=protocol {
                self.bus.declare_queue(&QueueSpec::pool(&pool(), version)).await?;
            }
            thermae_backplane::declare_worker(&*self.bus, &worker.id).await
        })
        .await;
        worker.beat(WorkerState::Ready, LONG).await;
        worker
    }
}

/// A running scheduler.
pub(crate) struct Scheduler {
    bus: SharedBus,
    pub(crate) metrics: prometheus::Registry,
    pub(crate) health: Health,
    stop: CancellationToken,
    task: JoinHandle<Result<(), thermae_scheduler::Error>>,
}

impl Scheduler {
    /// Ends the scheduler as SIGTERM does.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        soon(self.task).await.unwrap().unwrap();
    }

    /// Ends the scheduler as SIGKILL does: its connection breaks, and it doesn't give up its lead.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
        self.bus.close().await;
    }

    /// A counter or gauge, summed over the series that have a label with the value `with`. If `with` is empty, over
    /// all.
    pub(crate) fn metric(&self, name: &str, with: &str) -> f64 {
        let families = self.metrics.gather();
        let Some(family) = families.iter().find(|family| family.name() == name) else { return 0.0 };
        family
            .get_metric()
            .iter()
            .filter(|m| with.is_empty() || m.get_label().iter().any(|label| label.value() == with))
            .map(|m| m.get_counter().get_value() + m.get_gauge().get_value())
            .sum()
    }
}

/// A worker that runs no code.
pub(crate) struct Worker {
    pub(crate) id: WorkerId,
    /// Newest version of the protocol that it speaks.
    pub(crate) protocol: u32,
    pub(crate) slots: u32,
    pub(crate) max_sessions: u32,
    /// Sessions that it announces.
    pub(crate) sessions: Vec<thermae_schemas::SessionHeld>,
    /// How long the outcomes and records of its jobs are kept.
    pub(crate) keep: Keep,
    pub(crate) bus: SharedBus,
    pub(crate) registry: SharedRegistry,
}

/// A job that the worker has taken.
pub(crate) struct Assigned {
    pub(crate) delivery: Delivery,
    pub(crate) key: JobKey,
    pub(crate) attempt: u32,
    claim: Claim,
}

impl Assigned {
    pub(crate) fn id(&self) -> &str {
        self.key.job.as_str()
    }
}

impl Worker {
    /// Sends a heartbeat. The worker counts as alive for `ttl` from now.
    pub(crate) async fn beat(&self, state: WorkerState, ttl: Duration) {
        let capacity = PoolCapacity {
            slots: self.slots,
            busy: 0,
            max_sessions: self.max_sessions,
            languages: vec![Language::python()],
        };
        let beat = Heartbeat {
            protocol: self.protocol,
            worker: self.id.clone(),
            state,
            pools: BTreeMap::from([(pool(), capacity)]),
            running: Vec::new(),
            sessions: self.sessions.clone(),
            version: "test".to_owned(),
        };
        persist(|| self.registry.heartbeat(&beat, ttl)).await;
    }

    /// Takes jobs from the pool's queues and from its own, in order of arrival.
    pub(crate) async fn take(&self) -> mpsc::UnboundedReceiver<Assigned> {
        let (to, from) = mpsc::unbounded_channel();
        let shared = (1..=self.protocol).map(|version| names::pool_queue(&pool(), version));
        for queue in shared.chain([names::worker_queue(&self.id)]) {
            let mut consumer = self.bus.consume(&queue, 0).await.unwrap();
            let (to, id) = (to.clone(), self.id.clone());
            tokio::spawn(async move {
                while let Some(delivery) = consumer.next().await {
                    if to.send(assigned(&id, delivery)).is_err() {
                        return;
                    }
                }
            });
        }
        from
    }

    pub(crate) async fn start(&self, job: &Assigned) -> Start {
        self.begin(job).await.what
    }

    /// As [`Worker::start`]. Also returns who has taken the run over.
    pub(crate) async fn begin(&self, job: &Assigned) -> Answer<Start> {
        let message = &job.delivery.message;
        let request = StartRequest {
            job: job.key.clone(),
            pool: pool(),
            claim: job.claim.clone(),
            epoch: Epoch(message.headers.text(names::H_EPOCH).unwrap().to_owned()),
            only_copy: !job.delivery.redelivered && !message.headers.flag(names::H_MAYBE_DUPLICATE),
            max_attempts: u32::try_from(message.headers.int(names::H_MAX_ATTEMPTS).unwrap()).unwrap(),
            reply_key: message.reply_to.clone(),
            correlation_id: message.correlation_id.clone(),
            lease: Duration::from_millis(200),
            ttl: LONG,
        };
        persist(|| self.registry.start(&request)).await
    }

    /// Records and publishes an outcome, and acknowledges the job.
    pub(crate) async fn finish(&self, job: &Assigned, stdout: &str) {
        let mut outcome = Outcome::new(Status::Succeeded);
        outcome.stdout = stdout.to_owned();
        outcome.worker = Some(self.id.clone());
        let event = Event::new(job.key.job.clone(), job.attempt, EventBody::Result(outcome));
        let body: bytes::Bytes = serde_json::to_vec(&event).unwrap().into();
        let request = FinishRequest {
            job: job.key.clone(),
            pool: pool(),
            claim: job.claim.clone(),
            outcome: body.clone(),
            status: Status::Succeeded,
            keep: self.keep,
        };
        let Answer { what, taker } = persist(|| self.registry.finish(&request)).await;
        match what {
            Finish::Won => self.answer_to(job, taker, body).await,
            Finish::Terminal(recorded) => self.answer_to(job, taker, recorded.result(&job.key.job)).await,
            Finish::Superseded => acknowledge(&job.delivery).await,
        }
    }

    /// Publishes a result, and acknowledges the job.
    pub(crate) async fn answer(&self, job: &Assigned, body: bytes::Bytes) {
        self.answer_to(job, None, body).await;
    }

    async fn answer_to(&self, job: &Assigned, taker: Option<Taker>, body: bytes::Bytes) {
        let message = &job.delivery.message;
        let (key, correlation_id) = match taker.map(|taker| taker.address) {
            Some(to) => (Some(to.reply_key), to.correlation_id),
            None => (message.reply_to.clone(), message.correlation_id.clone()),
        };
        if let Some(key) = key {
            let result = Message {
                exchange: names::REPLIES.to_owned(),
                key,
                body,
                message_id: message.message_id.clone(),
                correlation_id,
                // Confirmed, as a worker's results are: the job's message is acknowledged after this.
                persistent: true,
                ..Message::default()
            };
            self.publish(result).await;
        }
        acknowledge(&job.delivery).await;
    }

    /// Runs all jobs that come, one after the other. Returns their order.
    pub(crate) async fn work(self, stdout: &'static str) -> mpsc::UnboundedReceiver<(TenantName, String)> {
        let (to, order) = mpsc::unbounded_channel();
        let mut jobs = self.take().await;
        tokio::spawn(async move {
            while let Some(job) = jobs.recv().await {
                match self.start(&job).await {
                    Start::Go => {
                        let _ = to.send((job.key.tenant.clone(), job.id().to_owned()));
                        self.finish(&job, stdout).await;
                    }
                    Start::Terminal(recorded) => self.answer(&job, recorded.result(&job.key.job)).await,
                    Start::Stale => acknowledge(&job.delivery).await,
                    Start::Resolve => self.hand_over(job).await,
                }
            }
        });
        order
    }

    /// Sends the job's message to the queue `resolve`.
    pub(crate) async fn hand_over(&self, job: Assigned) {
        let message = Message { exchange: names::RESOLVE.to_owned(), ..job.delivery.message.as_ref().clone() };
        self.publish(message).await;
        acknowledge(&job.delivery).await;
    }

    async fn publish(&self, message: Message) {
        persist(|| async { self.bus.publish(message.clone()).await?.wait().await }).await;
    }
}

/// Repeats a step that an outage makes fail.
async fn persist<T, E: std::fmt::Display, F: Future<Output = Result<T, E>>>(step: impl Fn() -> F) -> T {
    loop {
        match step().await {
            Ok(done) => return done,
            Err(error) => {
                tracing::debug!(%error, "again");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// If the connection is lost, the job comes again.
async fn acknowledge(delivery: &Delivery) {
    let _ = delivery.ack().await;
}

fn assigned(worker: &WorkerId, delivery: Delivery) -> Assigned {
    let message = &delivery.message;
    let owner = message.headers.text(names::H_TENANT).unwrap();
    let key = JobKey::new(tenant(owner), JobId::new(message.message_id.clone().unwrap()).unwrap());
    let attempt = u32::try_from(message.headers.int(names::H_ATTEMPT).unwrap()).unwrap();
    let nonce = uuid::Uuid::new_v4().to_string();
    Assigned { claim: Claim { attempt, owner: worker.clone(), nonce }, key, attempt, delivery }
}

/// Waits until a queue's depth is as wanted.
pub(crate) async fn depth(servers: &Servers, queue: &str, wanted: impl Fn(Option<u64>) -> bool) {
    soon(async {
        // The in-process bus doesn't report changes of a queue's depth, so this asks again and again.
        while !wanted(servers.bus.queue_depth(queue).await.unwrap()) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}
