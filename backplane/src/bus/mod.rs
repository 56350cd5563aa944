//! Messages: topic exchanges, durable queues, confirmed publishes and acknowledged deliveries.
//!
//! The semantics are RabbitMQ's. The in-process twin has the same: at-least-once delivery in order of arrival,
//! redelivery (marked as such) of what a lost consumer held, dead-lettering at the delivery limit, and `mandatory`
//! publishes that fail if no queue is bound.

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

/// A bus that several tasks share.
pub type SharedBus = Arc<dyn Bus>;

/// Errors of the bus.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A mandatory message has a routing key that no queue is bound to.
    #[error("no queue is bound to the exchange {exchange:?} with the key {key:?}")]
    Unroutable {
        /// Exchange of the message.
        exchange: String,
        /// Routing key of the message.
        key: String,
    },
    /// The broker refused the message because a queue that it leads to is full.
    #[error("the broker refused a message to the exchange {exchange:?} with the key {key:?}")]
    Refused {
        /// Exchange of the message.
        exchange: String,
        /// Routing key of the message.
        key: String,
    },
    /// The credentials are wrong, or the user lacks a permission. A retry doesn't help.
    #[error("the broker denied access: {0}")]
    Denied(String),
    /// The message is larger than the broker allows. A retry doesn't help.
    #[error("the message is too large for the broker: {0}")]
    TooLarge(String),
    /// The queue or exchange does not exist, or exists with other properties.
    #[error("the queue or exchange can't be used: {0}")]
    Topology(String),
    /// The connection is lost, and the bus is reconnecting. A publish that failed with this may have arrived.
    #[error("the connection to the broker is down: {0}")]
    Disconnected(String),
    /// This process has closed the bus.
    #[error("the bus is closed")]
    Closed,
}

impl Error {
    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Disconnected(_) | Self::Refused { .. })
    }
}

/// Declares what the whole fleet shares: every exchange, and the queues `unrouted` and `resolve`. Workers call this
/// when they start, and schedulers when they begin to lead. Clients never do.
///
/// # Errors
/// [`Error::Topology`] if something exists with other properties, [`Error::Denied`] without the right to declare.
pub async fn declare_fleet(bus: &dyn Bus) -> Result<(), Error> {
    for exchange in ExchangeSpec::fleet() {
        bus.declare_exchange(&exchange).await?;
    }
    for queue in [QueueSpec::unrouted(), QueueSpec::resolve()] {
        bus.declare_queue(&queue).await?;
    }
    Ok(())
}

/// Writes a worker's id to the journal of workers that have queues (`work.workers`). A worker does this before it
/// declares its own queue. If the worker dies, the scheduler finds the queue through the journal, even if the registry
/// was emptied.
///
/// # Errors
/// The same as for [`declare_fleet`], and [`Error::Disconnected`].
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

/// Writes a new worker's id to the journal, and declares its three queues.
///
/// # Errors
/// The same as for [`remember_worker`].
pub async fn declare_worker(bus: &dyn Bus, worker: &WorkerId) -> Result<(), Error> {
    remember_worker(bus, worker).await?;
    for queue in [QueueSpec::worker(worker), QueueSpec::control(worker), QueueSpec::calls(worker)] {
        bus.declare_queue(&queue).await?;
    }
    Ok(())
}

/// A publish on its way. Await it for the broker's confirm. If you drop it, you don't learn the answer, but the message
/// is sent all the same.
#[must_use = "a publish is only safe once it is confirmed"]
pub struct Confirm(pub(crate) futures::future::BoxFuture<'static, Result<(), Error>>);

impl Confirm {
    /// Wraps a future that resolves when the publish is confirmed or has failed.
    pub fn new(future: impl Future<Output = Result<(), Error>> + Send + 'static) -> Self {
        Self(Box::pin(future))
    }

    /// Waits until the broker has taken responsibility for the message. For a quorum queue, this means that a quorum
    /// has written it.
    ///
    /// # Errors
    /// [`Error::Unroutable`], [`Error::Refused`], or [`Error::Disconnected`] if the connection was lost before the
    /// confirm came.
    pub async fn wait(self) -> Result<(), Error> {
        self.0.await
    }
}

/// A subscription to one queue. Dropping it cancels the subscription, and deliveries that are not settled go back to
/// the queue.
#[async_trait]
pub trait Consumer: Send {
    /// The next delivery. `None` once the bus is closed or the queue is deleted. The subscription survives reconnects.
    /// The future may be dropped half-way (in a `select!`) without losing a delivery.
    async fn next(&mut self) -> Option<Delivery>;

    /// Asks the broker for no more deliveries, for a drain. From then on, [`Consumer::next`] returns `None`. Deliveries
    /// that were sent but that the caller hasn't seen go back to the queue. The caller can still settle the deliveries
    /// that it holds, until the consumer is dropped.
    ///
    /// # Errors
    /// [`Error::Disconnected`]: everything unsettled goes back to the queue.
    async fn stop(&mut self) -> Result<(), Error>;
}

/// A connection to a broker, or to the in-process twin. It is cheap to share: a process should have one.
#[async_trait]
pub trait Bus: Send + Sync + 'static {
    /// Declares an exchange and its bindings. An exchange that exists with the same properties is fine.
    async fn declare_exchange(&self, spec: &ExchangeSpec) -> Result<(), Error>;

    /// Declares a queue and its bindings. A queue that exists with the same properties is fine.
    async fn declare_queue(&self, spec: &QueueSpec) -> Result<(), Error>;

    /// Deletes a queue and the messages in it. A missing queue is fine.
    async fn delete_queue(&self, queue: &str) -> Result<(), Error>;

    /// Removes a queue's bindings, so that no more messages reach it under their keys. The messages in the queue stay.
    /// A missing queue or binding is fine.
    async fn unbind_queue(&self, spec: &QueueSpec) -> Result<(), Error>;

    /// How many messages wait in a queue. `None` if the queue doesn't exist.
    async fn queue_depth(&self, queue: &str) -> Result<Option<u64>, Error>;

    /// How many consumers a queue has, over all connections. `None` if the queue doesn't exist.
    async fn queue_consumers(&self, queue: &str) -> Result<Option<u64>, Error>;

    /// Hands a message to the broker. The confirm comes later, so that the caller can do other work meanwhile.
    ///
    /// Messages that are neither mandatory nor persistent arrive in the order of their publishing. Others can overtake
    /// each other; a caller that needs an order waits for each confirm.
    ///
    /// # Errors
    /// [`Error::Disconnected`] or [`Error::Closed`]: the message was not sent.
    async fn publish(&self, message: Message) -> Result<Confirm, Error>;

    /// Waits until all messages that were published without a confirm are in their queues. A message that is published
    /// afterwards comes after them.
    ///
    /// # Errors
    /// [`Error::Disconnected`] or [`Error::Closed`]: some of these messages may be lost.
    async fn flush(&self) -> Result<(), Error>;

    /// Subscribes to a queue. At most `prefetch` deliveries are unsettled at once. The future may be dropped half-way:
    /// then no subscription is left.
    async fn consume(&self, queue: &str, prefetch: u16) -> Result<Box<dyn Consumer>, Error>;

    /// Name of the user that this connection is authenticated as. The broker accepts no other name in a message's
    /// `user_id`.
    fn user(&self) -> &str;

    /// Whether the connection is up at this moment.
    fn is_connected(&self) -> bool;

    /// Closes the consumers and the connection. A second call does nothing.
    async fn close(&self);
}
