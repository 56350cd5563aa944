//! A message, and a delivery of one.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;

use super::Error;

/// Header in which the broker lists a message's deaths. Read, it is the names of the queues, with spaces between them; it is
/// never written.
pub(crate) const DEATHS: &str = "x-death";

/// Value of a message's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderValue {
    /// Text.
    Text(String),
    /// A number.
    Int(i64),
    /// A flag.
    Bool(bool),
}

/// A message's headers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(pub BTreeMap<String, HeaderValue>);

impl Headers {
    /// Text of a header.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.0.get(name)? {
            HeaderValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Number in a header.
    pub fn int(&self, name: &str) -> Option<i64> {
        match self.0.get(name)? {
            HeaderValue::Int(n) => Some(*n),
            _ => None,
        }
    }

    /// Whether a flag is there and set.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.0.get(name), Some(HeaderValue::Bool(true)))
    }

    /// Sets text.
    pub fn set_text(&mut self, name: &str, text: impl Into<String>) {
        self.0.insert(name.to_owned(), HeaderValue::Text(text.into()));
    }

    /// Sets a number.
    pub fn set_int(&mut self, name: &str, n: i64) {
        self.0.insert(name.to_owned(), HeaderValue::Int(n));
    }

    /// Sets a flag.
    pub fn set_flag(&mut self, name: &str, on: bool) {
        self.0.insert(name.to_owned(), HeaderValue::Bool(on));
    }
}

/// A message to an exchange.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// Exchange.
    pub exchange: String,
    /// Routing key.
    pub key: String,
    /// Body; JSON everywhere in Thermae.
    pub body: Bytes,
    /// Property `message_id`.
    pub message_id: Option<String>,
    /// Property `correlation_id`.
    pub correlation_id: Option<String>,
    /// Property `reply_to`: a key on the exchange `replies`.
    pub reply_to: Option<String>,
    /// Property `user_id`: the broker refuses a message whose `user_id` is not the name of the user that publishes it.
    pub user_id: Option<String>,
    /// Headers.
    pub headers: Headers,
    /// Fail the confirm with [`Error::Unroutable`] when no queue is bound.
    pub mandatory: bool,
    /// Survive a restart of the broker.
    pub persistent: bool,
}

impl Message {
    /// Whether RabbitMQ moved it here as a dead letter. A tenant can make it do so, under any routing key, from a queue of its
    /// own; what clients send never comes that way honestly.
    pub fn came_as_dead_letter(&self) -> bool {
        let marks = ["x-first-death-", "x-last-death-"];
        self.headers.0.keys().any(|name| name == DEATHS || marks.iter().any(|mark| name.starts_with(mark)))
    }

    /// Whether it died in a queue whose name begins so. This is the broker's own word: it adds to its list of deaths whatever
    /// a client wrote there before.
    pub fn died_in(&self, prefix: &str) -> bool {
        self.headers.text(DEATHS).is_some_and(|queues| queues.split(' ').any(|queue| queue.starts_with(prefix)))
    }
}

/// How a delivery is settled; made by the bus.
#[async_trait]
pub trait Settle: Send + Sync {
    /// Done: the broker forgets the message.
    async fn ack(&self) -> Result<(), Error>;
    /// The same of this delivery and of all that its consumer was handed before it and has not settled.
    async fn ack_multiple(&self) -> Result<(), Error>;
    /// Not done: back to the queue (`requeue`) or to the dead-letter exchange.
    async fn nack(&self, requeue: bool) -> Result<(), Error>;
    /// Whether it can still be settled, as far as is known here.
    fn is_current(&self) -> bool;
}

/// Settles nothing.
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

/// A delivery. It must be settled; dropped unsettled, it comes back only when the consumer or the connection ends.
pub struct Delivery {
    /// The message.
    pub message: Message,
    /// Whether the broker has delivered it before.
    pub redelivered: bool,
    pub(crate) settle: Box<dyn Settle>,
}

impl Delivery {
    /// A delivery that is settled by this.
    pub fn new(message: Message, redelivered: bool, settle: Box<dyn Settle>) -> Self {
        Self { message, redelivered, settle }
    }

    /// A delivery that no broker waits for: settling it does nothing. For tests of what reads messages.
    pub fn detached(message: Message) -> Self {
        Self::new(message, false, Box::new(Detached))
    }

    /// Whether the consumer and the connection that it came on still stand, as far as is known here. Where not, the broker has taken it
    /// back, and may have handed it to another by now.
    pub fn is_current(&self) -> bool {
        self.settle.is_current()
    }

    /// Done: the broker forgets the message.
    ///
    /// # Errors
    /// The connection it came on is gone: the broker will deliver it again.
    pub async fn ack(&self) -> Result<(), Error> {
        self.settle.ack().await
    }

    /// Done, as are all deliveries that the same consumer was handed before and has not settled.
    ///
    /// # Errors
    /// As for [`Delivery::ack`].
    pub async fn ack_multiple(&self) -> Result<(), Error> {
        self.settle.ack_multiple().await
    }

    /// Back to the queue, at its old place where possible.
    ///
    /// # Errors
    /// As for [`Delivery::ack`].
    pub async fn requeue(&self) -> Result<(), Error> {
        self.settle.nack(true).await
    }

    /// To the queue's dead-letter exchange; gone where it has none.
    ///
    /// # Errors
    /// As for [`Delivery::ack`].
    pub async fn dead_letter(&self) -> Result<(), Error> {
        self.settle.nack(false).await
    }
}

impl std::fmt::Debug for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delivery").field("key", &self.message.key).field("redelivered", &self.redelivered).finish()
    }
}
