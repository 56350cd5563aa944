//! What all parts of a leading scheduler share.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use thermae_backplane::allowance::Allowance;
use thermae_backplane::bus::{Consumer, Forged, Identity, Message, QueueSpec, SharedBus};
use thermae_backplane::record::Ended;
use thermae_backplane::registry::{self, Epoch, JobKey, SharedRegistry};
use thermae_schemas::{TenantName, names};
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

/// What a message that brings its tenant no run costs at least, in bytes: its record and its answer.
const LEAST: u64 = 4096;
/// What an outcome costs that a worker reads from the store and sends again, in bytes. How many it has is not in its record.
const STORED: usize = 1 << 20;
/// A tenant may spend so many seconds' worth at once.
const BURST: Duration = Duration::from_secs(16);
/// A tenant never waits longer than this for what it spent before.
const MOST: Duration = Duration::from_secs(60);

/// An allowance for messages that bring their tenants no run.
pub(crate) fn allowance() -> Arc<Allowance> {
    Arc::new(Allowance::new(BURST, MOST))
}

/// What all parts of a leading scheduler share. A clone costs a few counters.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) bus: SharedBus,
    pub(crate) registry: SharedRegistry,
    /// Decides whose a message is.
    pub(crate) identity: Arc<Identity>,
    pub(crate) options: Arc<Options>,
    pub(crate) metrics: Metrics,
    /// By which name this scheduler leads.
    pub(crate) who: Arc<str>,
    /// The workers, as last seen.
    pub(crate) fleet: watch::Receiver<Arc<FleetView>>,
    pub(crate) outages: Outages,
    /// What each tenant has spent on messages that bring it no run.
    pub(crate) allowance: Arc<Allowance>,
    /// The first epoch of the registry, once it is known. See [`crate::epochs`].
    pub(crate) first_epoch: Arc<OnceLock<Epoch>>,
    /// Everything that runs while this scheduler leads; waited for when it ends.
    pub(crate) tasks: TaskTracker,
    /// Cancelled when the dispatcher has ended after that: what it still had in hand is settled, so its consumers may go.
    pub(crate) drained: CancellationToken,
    /// Cancelled when a task of it ended that must not: this scheduler then gives its lead up, and begins anew.
    pub(crate) failed: CancellationToken,
    /// Cancelled when this scheduler leads no more.
    pub(crate) stop: CancellationToken,
}

impl Context {
    /// Takes the cost of a message that brings its tenant no run from the tenant's allowance: a refusal, a cancel, a question, or an
    /// answer that was given before. How long to wait before that tenant's next one.
    pub(crate) fn charge(&self, tenant: &TenantName, bytes: usize) -> Duration {
        self.allowance.spend(tenant, LEAST.max(bytes as u64), self.options.refused_bytes.as_u64(), Instant::now())
    }

    /// The same for an outcome that is sent again.
    pub(crate) fn charge_again(&self, tenant: &TenantName, ended: &Ended) {
        let bytes = match ended {
            Ended::Outcome(outcome) => outcome.len(),
            Ended::Stored { .. } => STORED,
            Ended::Tombstone(_) => 0,
        };
        self.charge(tenant, bytes);
    }

    /// Starts a task of this reign. Its panic ends the reign.
    pub(crate) fn spawn(&self, task: &'static str, future: impl Future<Output = ()> + Send + 'static) {
        let ctx = self.clone();
        self.tasks.spawn(async move {
            if caught(task, future).await.is_err() {
                ctx.metrics.panicked();
                ctx.failed.cancel();
            }
        });
    }

    /// Starts a task that must run as long as this scheduler leads. Its end before that ends the reign, too.
    pub(crate) fn spawn_for_good(&self, task: &'static str, future: impl Future<Output = ()> + Send + 'static) {
        let ctx = self.clone();
        self.spawn(task, async move {
            future.await;
            if !ctx.stop.is_cancelled() {
                tracing::error!(task, "a task ended that must not");
                ctx.failed.cancel();
            }
        });
    }

    /// Publishes and waits for the confirm. What another user signed goes on unsigned: the broker would refuse it.
    pub(crate) async fn publish(&self, mut message: Message) -> Result<(), Trouble> {
        message.user_id = message.user_id.filter(|user| user == self.bus.user());
        Ok(self.bus.publish(message).await?.wait().await?)
    }

    /// Signs a tenant's message that the fleet moves. Only for one whose sender was checked.
    pub(crate) fn vouch(&self, message: &mut Message, tenant: &TenantName) {
        message.sign(self.bus.as_ref(), tenant);
    }

    /// Counts and logs a message that is dropped, because it is not its tenant's own.
    pub(crate) fn forged(&self, message: &Message, why: &Forged) {
        tracing::warn!(key = message.key, %why, "a message that its tenant did not send here is dropped");
        self.metrics.forged();
    }

    /// Makes sure of a queue and consumes it; waits for the broker through outages.
    pub(crate) async fn consume(&self, spec: &QueueSpec, prefetch: u16) -> Result<Box<dyn Consumer>, Trouble> {
        self.persist(|| async {
            self.bus.declare_queue(spec).await?;
            Ok(self.bus.consume(&spec.name, prefetch).await?)
        })
        .await
    }

    /// Repeats a step until it works. It must be idempotent.
    ///
    /// # Errors
    /// The scheduler stops, or leads no more; or the registry holds what can't be read, which no repetition mends.
    pub(crate) async fn persist<T, F>(&self, step: impl Fn() -> F) -> Result<T, Trouble>
    where
        F: Future<Output = Result<T, Trouble>>,
    {
        let mut pause = crate::outage::Backoff::default();
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

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// The trace that a message belongs to.
pub(crate) fn trace_of(message: &Message) -> TraceContext {
    TraceContext {
        traceparent: message.headers.text(names::H_TRACEPARENT).map(str::to_owned),
        tracestate: message.headers.text(names::H_TRACESTATE).map(str::to_owned),
    }
}

/// Writes a trace into a message.
pub(crate) fn set_trace(message: &mut Message, trace: TraceContext) {
    if let Some(parent) = trace.traceparent {
        message.headers.set_text(names::H_TRACEPARENT, parent);
    }
    if let Some(state) = trace.tracestate {
        message.headers.set_text(names::H_TRACESTATE, state);
    }
}

/// The part of a message's reply key that may be used: its tenant's own.
pub(crate) fn reply_key(tenant: &TenantName, message: &Message) -> Option<String> {
    message.reply_to.clone().filter(|key| names::owns_reply_key(tenant, key))
}

/// Span of the work on one job, a child of the client's.
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

/// Which span.
pub(crate) enum Name {
    Schedule,
    Resolve,
}
