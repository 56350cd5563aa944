//! State that all parts of a leading scheduler share.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::BoxFuture;
use thermae_backplane::allowance::Allowance;
use thermae_backplane::bus::{Consumer, Forged, Identity, Message, QueueSpec, SharedBus};
use thermae_backplane::record::Ended;
use thermae_backplane::registry::{self, Epoch, JobKey, SharedRegistry};
use thermae_schemas::{TenantName, names};
use thermae_service::backoff::Backoff;
use thermae_service::supervise::caught;
use thermae_service::trace::TraceContext;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::Trouble;
use crate::fleet::FleetView;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::outage::Outages;

/// Lowest cost of a message that runs no job, in bytes: the cost of its record and its answer.
const LEAST: u64 = 4096;
/// Cost of an outcome that a worker reads from the store and sends again, in bytes. The record doesn't say its real
/// size.
const STORED: usize = 1 << 20;
/// How many seconds' worth a tenant may spend at once.
const BURST: Duration = Duration::from_secs(16);
/// Longest time that a tenant waits for what it spent before.
const MOST: Duration = Duration::from_secs(60);

/// A new allowance for messages that run no job: refusals, cancels, questions, requests to sessions, and repeated
/// outcomes.
pub(crate) fn allowance() -> Arc<Allowance> {
    Arc::new(Allowance::new(BURST, MOST))
}

/// State that all parts of a leading scheduler share. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) bus: SharedBus,
    pub(crate) registry: SharedRegistry,
    /// Decides which tenant a message belongs to.
    pub(crate) identity: Arc<Identity>,
    pub(crate) options: Arc<Options>,
    pub(crate) metrics: Metrics,
    /// The name under which this scheduler leads. It is different for each process.
    pub(crate) who: Arc<str>,
    /// The workers, as they were last seen.
    pub(crate) fleet: watch::Receiver<Arc<FleetView>>,
    pub(crate) outages: Outages,
    /// What each tenant has spent on messages that run no job.
    pub(crate) allowance: Arc<Allowance>,
    /// The first epoch of the registry, if it is known (see [`crate::epochs`]).
    pub(crate) first_epoch: Arc<OnceLock<Epoch>>,
    /// The tasks of this reign. The scheduler waits for them when the reign ends.
    pub(crate) tasks: TaskTracker,
    /// Cancelled when the dispatcher has ended. It has settled what it had in hand, so the consumers may end, too.
    pub(crate) drained: CancellationToken,
    /// Cancelled when an essential task has ended. This scheduler then gives up its lead and starts over.
    pub(crate) failed: CancellationToken,
    /// Cancelled when this scheduler no longer leads.
    pub(crate) stop: CancellationToken,
}

impl Context {
    /// Charges a tenant for a message that runs no job: a refusal, a cancel, a question, a request to a session, or a
    /// repeated outcome. Returns how long to wait before the tenant's next one.
    pub(crate) fn charge(&self, tenant: &TenantName, bytes: usize) -> Duration {
        self.allowance.spend(tenant, LEAST.max(bytes as u64), self.options.refused_bytes.as_u64(), Instant::now())
    }

    /// Charges a tenant for an outcome that is sent again.
    pub(crate) fn charge_again(&self, tenant: &TenantName, ended: &Ended) {
        let bytes = match ended {
            Ended::Outcome(outcome) => outcome.len(),
            Ended::Stored { .. } => STORED,
            Ended::Tombstone(_) => 0,
        };
        self.charge(tenant, bytes);
    }

    /// Starts a task of this reign. A panic of the task ends the reign.
    pub(crate) fn spawn(&self, task: &'static str, future: impl Future<Output = ()> + Send + 'static) {
        self.spawn_boxed(task, Box::pin(future));
    }

    /// Not generic: the compiler would otherwise make all of tokio's code for a task anew for each kind of task.
    fn spawn_boxed(&self, task: &'static str, future: BoxFuture<'static, ()>) {
        let ctx = self.clone();
        self.tasks.spawn(async move {
            if caught(task, future).await.is_err() {
                ctx.metrics.panicked();
                ctx.failed.cancel();
            }
        });
    }

    /// Starts a task that must run as long as this scheduler leads. If it ends earlier, the reign ends.
    pub(crate) fn spawn_for_good(&self, task: &'static str, future: impl Future<Output = ()> + Send + 'static) {
        let ctx = self.clone();
        self.spawn(task, async move {
            future.await;
            if !ctx.stop.is_cancelled() {
                tracing::error!(task, "a task ended that must run as long as this scheduler leads");
                ctx.failed.cancel();
            }
        });
    }

    /// Publishes and waits for the confirm. Removes the `user_id` of another user, because the broker would refuse it.
    pub(crate) async fn publish(&self, mut message: Message) -> Result<(), Trouble> {
        message.user_id = message.user_id.filter(|user| user == self.bus.user());
        Ok(self.bus.publish(message).await?.wait().await?)
    }

    /// Signs a tenant's message that the fleet forwards. The caller must have checked its sender.
    pub(crate) fn vouch(&self, message: &mut Message, tenant: &TenantName) {
        message.sign(self.bus.as_ref(), tenant);
    }

    /// Counts and logs a message that is dropped because its tenant didn't send it.
    pub(crate) fn forged(&self, message: &Message, why: &Forged) {
        tracing::warn!(key = message.key, %why, "a message is dropped because its tenant did not send it here");
        self.metrics.forged();
    }

    /// Declares a queue and consumes it. Waits through outages of the broker.
    pub(crate) async fn consume(&self, spec: &QueueSpec, prefetch: u16) -> Result<Box<dyn Consumer>, Trouble> {
        self.persist(|| async {
            self.bus.declare_queue(spec).await?;
            Ok(self.bus.consume(&spec.name, prefetch).await?)
        })
        .await
    }

    /// Repeats a step until it succeeds. The step must be idempotent.
    ///
    /// # Errors
    /// The scheduler stops or no longer leads, or the registry holds data that can't be read, so that a retry doesn't
    /// help.
    pub(crate) async fn persist<T, F>(&self, step: impl Fn() -> F) -> Result<T, Trouble>
    where
        F: Future<Output = Result<T, Trouble>>,
    {
        let mut pause = Backoff::default();
        loop {
            match step().await {
                Ok(done) => {
                    self.outages.over();
                    return Ok(done);
                }
                Err(error @ (Trouble::Stopped | Trouble::Registry(registry::Error::Corrupt(_)))) => return Err(error),
                Err(error) => self.outages.note(&error),
            }
            tokio::select! {
                () = pause.wait() => {}
                () = self.stop.cancelled() => return Err(Trouble::Stopped),
            }
        }
    }
}

/// The time now, in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// The trace context in a message's headers.
pub(crate) fn trace_of(message: &Message) -> TraceContext {
    TraceContext {
        traceparent: message.headers.text(names::H_TRACEPARENT).map(str::to_owned),
        tracestate: message.headers.text(names::H_TRACESTATE).map(str::to_owned),
    }
}

/// Writes a trace context into a message's headers.
pub(crate) fn set_trace(message: &mut Message, trace: TraceContext) {
    if let Some(parent) = trace.traceparent {
        message.headers.set_text(names::H_TRACEPARENT, parent);
    }
    if let Some(state) = trace.tracestate {
        message.headers.set_text(names::H_TRACESTATE, state);
    }
}

/// A message's reply key, if it belongs to the tenant.
pub(crate) fn reply_key(tenant: &TenantName, message: &Message) -> Option<String> {
    message.reply_to.clone().filter(|key| names::owns_reply_key(tenant, key))
}

/// The span of the work on one job, as a child of the client's span.
pub(crate) fn span(name: Name, job: &JobKey, message: &Message) -> tracing::Span {
    let span = match name {
        Name::Schedule => tracing::info_span!(
            "schedule",
            otel.kind = "consumer",
            messaging.system = "rabbitmq",
            messaging.destination.name = %message.exchange,
            tenant = %job.tenant,
            job.id = %job.job,
        ),
        Name::Resolve => tracing::info_span!(
            "resolve",
            otel.kind = "consumer",
            messaging.system = "rabbitmq",
            messaging.destination.name = names::RESOLVE_QUEUE,
            tenant = %job.tenant,
            job.id = %job.job,
        ),
    };
    thermae_service::trace::adopt(&span, &trace_of(message));
    span
}

pub(crate) enum Name {
    Schedule,
    Resolve,
}
