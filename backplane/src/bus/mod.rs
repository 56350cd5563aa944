//! Messages: topic exchanges, durable queues, confirmed publishes and acknowledged deliveries.
//!
//! Semantics are RabbitMQ's. The in-process twin keeps them: at-least-once delivery in order of arrival, redelivery (marked)
//! of what a lost consumer held, dead-lettering at the delivery limit, and `mandatory` publishes that fail when no queue
//! is bound.

mod ack_batch;
mod identity;
mod local;
mod message;
mod rabbit;
mod topology;

use std::sync::Arc;

use async_trait::async_trait;
use thermae_schemas::{WorkerId, names};

pub use ack_batch::AckBatch;
pub use identity::{Forged, Identity};
pub use local::Local;
pub use message::{Delivery, HeaderValue, Headers, Message, Settle};
pub use rabbit::{Rabbit, RabbitOptions};
pub use topology::{ExchangeKind, ExchangeSpec, QueueKind, QueueSpec, REPLIES_EXPIRE};

/// Shared handle of a bus.
pub type SharedBus = Arc<dyn Bus>;

/// What can go wrong with the bus.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No queue is bound to the key of a mandatory message.
    #[error("nobody is bound to {exchange:?} with key {key:?}")]
    Unroutable {
        /// Exchange of the message.
        exchange: String,
        /// Its routing key.
        key: String,
    },
    /// The broker refused the message: a queue that it leads to is full.
    #[error("the broker refused a message to {exchange:?} with key {key:?}")]
    Refused {
        /// Exchange of the message.
        exchange: String,
        /// Its routing key.
        key: String,
    },
    /// The broker's permissions forbid it, or the credentials are wrong. Trying again does not help.
    #[error("the broker denied it: {0}")]
    Denied(String),
    /// The message is larger than the broker takes. Trying again does not help.
    #[error("the message is too large for the broker: {0}")]
    TooLarge(String),
    /// The queue or exchange does not exist, or exists with other properties.
    #[error("the broker's topology does not fit: {0}")]
    Topology(String),
    /// The connection is down; recovery is under way. Whether a publish arrived is not known.
    #[error("the connection to the broker is down: {0}")]
    Disconnected(String),
    /// The bus was closed by us.
    #[error("the bus is closed")]
    Closed,
}

impl Error {
    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Disconnected(_) | Self::Refused { .. })
    }
}

/// Declares what the fleet shares: every exchange, and the queues `unrouted` and `resolve`. Clients never do this;
/// a scheduler or worker that comes first does.
///
/// # Errors
/// [`Error::Topology`] where something exists with other properties, [`Error::Denied`] without the right to declare.
pub async fn declare_fleet(bus: &dyn Bus) -> Result<(), Error> {
    for exchange in ExchangeSpec::fleet() {
        bus.declare_exchange(&exchange).await?;
    }
    for queue in [QueueSpec::unrouted(), QueueSpec::resolve()] {
        bus.declare_queue(&queue).await?;
    }
    Ok(())
}

/// Writes a worker down in the journal of those that have queues of their own. A worker does so before it declares its queue:
/// should it die, the scheduler finds the queue by the journal, whatever became of the registry.
///
/// # Errors
/// As for [`declare_fleet`], and [`Error::Disconnected`].
pub async fn remember_worker(bus: &dyn Bus, worker: &WorkerId) -> Result<(), Error> {
    bus.declare_queue(&QueueSpec::workers()).await?;
    let message = Message {
        exchange: names::WORK.to_owned(),
        key: names::WORKERS_KEY.to_owned(),
        body: serde_json::to_vec(&[worker]).unwrap_or_default().into(),
        mandatory: true,
        persistent: true,
        ..Message::default()
    };
    bus.publish(message).await?.wait().await
}

/// Makes sure of a new worker's queues, after it was written down.
///
/// # Errors
/// As for [`remember_worker`].
pub async fn declare_worker(bus: &dyn Bus, worker: &WorkerId) -> Result<(), Error> {
    remember_worker(bus, worker).await?;
    for queue in [QueueSpec::worker(worker), QueueSpec::control(worker), QueueSpec::calls(worker)] {
        bus.declare_queue(&queue).await?;
    }
    Ok(())
}

/// A publish on its way: await it for the broker's confirm. Dropping it gives up only the news, not the message.
#[must_use = "a publish is only safe once it is confirmed"]
pub struct Confirm(pub(crate) futures::future::BoxFuture<'static, Result<(), Error>>);

impl Confirm {
    /// A confirm that comes from this future.
    pub fn new(future: impl Future<Output = Result<(), Error>> + Send + 'static) -> Self {
        Self(Box::pin(future))
    }

    /// Waits for the broker to have taken responsibility: written to a quorum of a quorum queue.
    ///
    /// # Errors
    /// [`Error::Unroutable`], [`Error::Refused`], or [`Error::Disconnected`] where the confirm was lost with its connection.
    pub async fn wait(self) -> Result<(), Error> {
        self.0.await
    }
}

/// A subscription. Dropping it cancels it; deliveries not yet settled go back to the queue.
#[async_trait]
pub trait Consumer: Send {
    /// The next delivery; `None` once the bus is closed or the queue deleted. Survives reconnects.
    /// May be dropped half-way (in a `select!`) without losing a delivery.
    async fn next(&mut self) -> Option<Delivery>;

    /// Asks for no more: [`Consumer::next`] ends, what was sent and not seen goes back, and what the caller holds can
    /// still be settled until the consumer is dropped. For a drain.
    ///
    /// # Errors
    /// [`Error::Disconnected`]: then everything unsettled goes back.
    async fn stop(&mut self) -> Result<(), Error>;
}

/// A connection to a broker (or to the twin). Cheap to share; one per process is meant.
#[async_trait]
pub trait Bus: Send + Sync + 'static {
    /// Makes sure of an exchange.
    async fn declare_exchange(&self, spec: &ExchangeSpec) -> Result<(), Error>;

    /// Makes sure of a queue and its bindings.
    async fn declare_queue(&self, spec: &QueueSpec) -> Result<(), Error>;

    /// Deletes a queue and what is in it; not existing is fine.
    async fn delete_queue(&self, queue: &str) -> Result<(), Error>;

    /// Takes a queue's bindings away: what comes under their keys from now on does not reach it. What is in it stays. Neither
    /// need exist.
    async fn unbind_queue(&self, spec: &QueueSpec) -> Result<(), Error>;

    /// How many messages wait in a queue; `None` where it does not exist.
    async fn queue_depth(&self, queue: &str) -> Result<Option<u64>, Error>;

    /// How many consumers a queue has, over all connections; `None` where it does not exist.
    async fn queue_consumers(&self, queue: &str) -> Result<Option<u64>, Error>;

    /// Hands a message to the broker; the confirm comes later, so that a caller may overlap it with other work.
    ///
    /// # Errors
    /// [`Error::Disconnected`] or [`Error::Closed`]: then it was not sent.
    async fn publish(&self, message: Message) -> Result<Confirm, Error>;

    /// Waits until all that was published without a confirm is in its queues: what is published afterwards comes after it.
    ///
    /// # Errors
    /// [`Error::Disconnected`] or [`Error::Closed`]: then some of it may be lost.
    async fn flush(&self) -> Result<(), Error>;

    /// Subscribes, with at most `prefetch` deliveries unsettled at once.
    async fn consume(&self, queue: &str, prefetch: u16) -> Result<Box<dyn Consumer>, Error>;

    /// Name of the user that this connection is authenticated as: the only one that a message's `user_id` may name.
    fn user(&self) -> &str;

    /// Whether the connection stands at this moment.
    fn is_connected(&self) -> bool;

    /// Closes consumers and the connection. Idempotent.
    async fn close(&self);
}
