//! What all parts of a leading scheduler share.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use thermae_backplane::bus::{Consumer, Message, QueueSpec, SharedBus};
use thermae_backplane::registry::{self, JobKey, SharedRegistry};
use thermae_schemas::{TenantName, names};
use thermae_service::trace::TraceContext;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::Trouble;
use crate::fleet::Fleet;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::outage::Outages;

/// What all parts of a leading scheduler share. A clone costs a few counters.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) bus: SharedBus,
    pub(crate) registry: SharedRegistry,
    pub(crate) options: Arc<Options>,
    pub(crate) metrics: Metrics,
    /// The workers, as last seen.
    pub(crate) fleet: watch::Receiver<Arc<Fleet>>,
    pub(crate) outages: Outages,
    /// Everything that runs while this scheduler leads; waited for when it ends.
    pub(crate) tasks: TaskTracker,
    /// Cancelled when the dispatcher has ended after that: what it still had in hand is settled, so its consumers may go.
    pub(crate) drained: CancellationToken,
    /// Cancelled when this scheduler leads no more.
    pub(crate) stop: CancellationToken,
}

impl Context {
    /// Publishes and waits for the confirm.
    pub(crate) async fn publish(&self, message: Message) -> Result<(), Trouble> {
        Ok(self.bus.publish(message).await?.wait().await?)
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

    /// Whether a tenant may submit, and with what share.
    pub(crate) fn weight(&self, tenant: &TenantName) -> u32 {
        self.options.tenant(tenant).map_or(1, |options| options.weight.max(1))
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
