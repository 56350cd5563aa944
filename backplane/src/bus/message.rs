//! Messages, as they are published and as they are delivered.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;

use super::Error;

/// Header in which the broker lists the queues that a message died in. On a message that was read, its value is the
/// queues' names, separated by spaces. It is never written to the broker.
pub(crate) const DEATHS: &str = "x-death";

/// Value of a header. Headers of other types are not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderValue {
    /// A string.
    Text(String),
    /// An integer.
    Int(i64),
    /// A boolean.
    Bool(bool),
}

/// Headers of a message, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(pub BTreeMap<Cow<'static, str>, HeaderValue>);

impl Headers {
    /// Value of a header, if it is a string.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.0.get(name)? {
            HeaderValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Value of a header, if it is an integer.
    pub fn int(&self, name: &str) -> Option<i64> {
        match self.0.get(name)? {
            HeaderValue::Int(n) => Some(*n),
            _ => None,
        }
    }

    /// Whether a header exists and is `true`.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.0.get(name), Some(HeaderValue::Bool(true)))
    }

    /// Sets a header to a string.
    pub fn set_text(&mut self, name: impl Into<Cow<'static, str>>, text: impl Into<String>) {
        self.0.insert(name.into(), HeaderValue::Text(text.into()));
    }

    /// Sets a header to an integer.
    pub fn set_int(&mut self, name: impl Into<Cow<'static, str>>, n: i64) {
        self.0.insert(name.into(), HeaderValue::Int(n));
    }

    /// Sets a header to a flag.
    pub fn set_flag(&mut self, name: impl Into<Cow<'static, str>>, on: bool) {
        self.0.insert(name.into(), HeaderValue::Bool(on));
    }
}

/// A message: one to publish to an exchange, or one that was delivered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// Exchange that the message is published to.
    pub exchange: String,
    /// Routing key of the message.
    pub key: String,
    /// Body; JSON everywhere in Thermae.
    pub body: Bytes,
    /// Property `message_id`: normally the id of the job that the message is about.
    pub message_id: Option<String>,
    /// Property `correlation_id`: the client's own mark, which answers repeat.
    pub correlation_id: Option<String>,
    /// Property `reply_to`: a routing key on the exchange `replies`.
    pub reply_to: Option<String>,
    /// Property `user_id`. The broker refuses a message if this is not the name of the user that publishes it.
    pub user_id: Option<String>,
    /// Headers of the message.
    pub headers: Headers,
    /// The confirm fails with [`Error::Unroutable`] if no queue is bound to the routing key.
    pub mandatory: bool,
    /// The message survives a restart of the broker.
    pub persistent: bool,
}

impl Message {
    /// Whether RabbitMQ moved the message here as a dead letter. A tenant can cause this with a queue of its own, and
    /// under any routing key. No honest client's message arrives this way.
    pub fn came_as_dead_letter(&self) -> bool {
        let marks = ["x-first-death-", "x-last-death-"];
        self.headers.0.keys().any(|name| name == DEATHS || marks.iter().any(|mark| name.starts_with(mark)))
    }

    /// Whether the message died in a queue whose name begins with `prefix`. A client can't hide that: the broker adds
    /// the queue to any list of deaths that the client wrote.
    pub fn died_in(&self, prefix: &str) -> bool {
        self.headers.text(DEATHS).is_some_and(|queues| queues.split(' ').any(|queue| queue.starts_with(prefix)))
    }
}

/// Settles a delivery: acknowledges it, gives it back to its queue, or dead-letters it. Each bus implements this.
#[async_trait]
pub trait Settle: Send + Sync {
    /// Acknowledges the delivery: the broker forgets the message.
    async fn ack(&self) -> Result<(), Error>;
    /// Acknowledges this delivery, and all earlier ones of the same consumer that are not settled.
    async fn ack_multiple(&self) -> Result<(), Error>;
    /// Rejects the delivery. It goes back to the queue (`requeue`) or to the dead-letter exchange.
    async fn nack(&self, requeue: bool) -> Result<(), Error>;
    /// Whether the delivery can still be settled, as far as this process knows.
    fn is_current(&self) -> bool;
}

/// For deliveries without a broker: does nothing.
struct Detached;

#[async_trait]
impl Settle for Detached {
    async fn ack(&self) -> Result<(), Error> {
        Ok(())
    }

    async fn ack_multiple(&self) -> Result<(), Error> {
        Ok(())
    }

    async fn nack(&self, _requeue: bool) -> Result<(), Error> {
        Ok(())
    }

    fn is_current(&self) -> bool {
        true
    }
}

/// A delivery, which must be settled. If it is dropped unsettled, the broker delivers it again only when the consumer
/// or the connection ends.
pub struct Delivery {
    /// The message. The embedded fleet's queues hold the same one.
    pub message: Arc<Message>,
    /// Whether the broker has delivered the message before.
    pub redelivered: bool,
    pub(crate) settle: Box<dyn Settle>,
    /// Whether it was settled. RabbitMQ closes a channel on which a delivery is settled twice.
    settled: AtomicBool,
}

impl Delivery {
    /// A delivery that `settle` settles.
    pub fn new(message: impl Into<Arc<Message>>, redelivered: bool, settle: Box<dyn Settle>) -> Self {
        Self { message: message.into(), redelivered, settle, settled: AtomicBool::new(false) }
    }

    /// A delivery without a broker: settling it does nothing. For tests of code that reads messages.
    pub fn detached(message: Message) -> Self {
        Self::new(message, false, Box::new(Detached))
    }

    /// Whether the consumer and the connection of this delivery are still up, as far as this process knows. If not, the
    /// broker has taken the delivery back, and may already have delivered it to another consumer.
    pub fn is_current(&self) -> bool {
        self.settle.is_current()
    }

    /// Whether it was settled: acknowledged, put back or dead-lettered. After that, settling it does nothing.
    pub fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }

    /// Notes that it is settled now. `false` if it was settled before.
    fn settles(&self) -> bool {
        !self.settled.swap(true, Ordering::AcqRel)
    }

    /// Acknowledges the delivery: the broker forgets the message.
    ///
    /// # Errors
    /// The delivery's connection is gone. The broker will deliver the message again.
    pub async fn ack(&self) -> Result<(), Error> {
        if self.settles() { self.settle.ack().await } else { Ok(()) }
    }

    /// Acknowledges this delivery, and all earlier ones of the same consumer that are not settled.
    ///
    /// # Errors
    /// The same as for [`Delivery::ack`].
    pub async fn ack_multiple(&self) -> Result<(), Error> {
        if self.settles() { self.settle.ack_multiple().await } else { Ok(()) }
    }

    /// Puts the message back into the queue, at its old place if possible.
    ///
    /// # Errors
    /// The same as for [`Delivery::ack`].
    pub async fn requeue(&self) -> Result<(), Error> {
        if self.settles() { self.settle.nack(true).await } else { Ok(()) }
    }

    /// Sends the message to the queue's dead-letter exchange. If the queue has none, the message is dropped.
    ///
    /// # Errors
    /// The same as for [`Delivery::ack`].
    pub async fn dead_letter(&self) -> Result<(), Error> {
        if self.settles() { self.settle.nack(false).await } else { Ok(()) }
    }
}

impl std::fmt::Debug for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delivery").field("key", &self.message.key).field("redelivered", &self.redelivered).finish()
    }
}
