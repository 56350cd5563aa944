//! The bus in one process: RabbitMQ's semantics as far as the fleet uses them, in a few microseconds a message.
//!
//! A [`Local`] is a *connection* to a broker in memory. [`Local::connect`] opens another one to the same broker.
//! Closing a connection puts back what its consumers held, as the end of a TCP connection does. Whether a queue has
//! expired is checked when the queue is used, so nothing runs in the background.

mod broker;
mod queue;
mod routing;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::{Bus, Confirm, Consumer, Delivery, Error, ExchangeSpec, Message, QueueSpec, Settle};
use broker::{Broker, Verdict};
use queue::{Sent, Tag};
use routing::Name;

/// A connection to a broker in this process.
pub struct Local {
    broker: Arc<Mutex<Broker>>,
    connection: u64,
    user: Arc<str>,
}

/// User of the first connection: the fleet's own.
const FLEET: &str = "fleet";

impl Default for Local {
    fn default() -> Self {
        Self::new()
    }
}

fn lock(broker: &Mutex<Broker>) -> MutexGuard<'_, Broker> {
    broker.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Local {
    /// A connection to a new, empty broker.
    pub fn new() -> Self {
        let mut broker = Broker::default();
        let connection = broker.id();
        Self { broker: Arc::new(Mutex::new(broker)), connection, user: FLEET.into() }
    }

    /// Another connection to the same broker, as the same user.
    pub fn connect(&self) -> Self {
        self.as_user(&self.user)
    }

    /// Another connection to the same broker, as this user. As with RabbitMQ, a message's `user_id` may name only this
    /// user. There are no other permissions.
    pub fn as_user(&self, user: &str) -> Self {
        let connection = lock(&self.broker).id();
        Self { broker: self.broker.clone(), connection, user: user.into() }
    }

    /// Refuses a message whose `user_id` names another user, as RabbitMQ does.
    fn check_user(&self, message: &Message) -> Result<(), Error> {
        match &message.user_id {
            Some(named) if **named != *self.user => Err(Error::Denied(format!(
                "user_id property set to {named:?} but authenticated user was {:?}",
                self.user
            ))),
            _ => Ok(()),
        }
    }

    /// The broker, if this connection is open.
    fn open(&self) -> Result<MutexGuard<'_, Broker>, Error> {
        let broker = lock(&self.broker);
        if broker.is_open(self.connection) { Ok(broker) } else { Err(Error::Closed) }
    }
}

#[async_trait]
impl Bus for Local {
    async fn declare_exchange(&self, spec: &ExchangeSpec) -> Result<(), Error> {
        self.open()?.declare_exchange(spec)
    }

    async fn declare_queue(&self, spec: &QueueSpec) -> Result<(), Error> {
        self.open()?.declare_queue(spec)
    }

    async fn delete_queue(&self, queue: &str) -> Result<(), Error> {
        self.open()?.delete_queue(queue);
        Ok(())
    }

    async fn unbind_queue(&self, spec: &QueueSpec) -> Result<(), Error> {
        self.open()?.unbind_queue(spec);
        Ok(())
    }

    async fn queue_consumers(&self, queue: &str) -> Result<Option<u64>, Error> {
        Ok(self.open()?.consumers(queue))
    }

    async fn queue_depth(&self, queue: &str) -> Result<Option<u64>, Error> {
        Ok(self.open()?.depth(queue))
    }

    async fn publish(&self, mut message: Message) -> Result<Confirm, Error> {
        // Nobody sees the flag on a delivery.
        let mandatory = std::mem::take(&mut message.mandatory);
        let message = Arc::new(message);
        let mut broker = self.open()?;
        let answer = match self.check_user(&message).and_then(|()| broker.publish(&message)) {
            Ok(false) if mandatory => {
                Err(Error::Unroutable { exchange: message.exchange.clone(), key: message.key.clone() })
            }
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        Ok(Confirm::new(std::future::ready(answer)))
    }

    async fn flush(&self) -> Result<(), Error> {
        self.open().map(drop)
    }

    async fn consume(&self, queue: &str, prefetch: u16) -> Result<Box<dyn Consumer>, Error> {
        let (to, from) = mpsc::unbounded_channel();
        let (queue, id) = self.open()?.subscribe(queue, self.connection, prefetch, to)?;
        Ok(Box::new(LocalConsumer { broker: self.broker.clone(), queue, id, from }))
    }

    fn user(&self) -> &str {
        &self.user
    }

    fn is_connected(&self) -> bool {
        self.open().is_ok()
    }

    async fn close(&self) {
        lock(&self.broker).close(self.connection);
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        lock(&self.broker).close(self.connection);
    }
}

struct LocalConsumer {
    broker: Arc<Mutex<Broker>>,
    queue: Name,
    id: u64,
    /// Unbounded, but the queue sends no more than the prefetch.
    from: mpsc::UnboundedReceiver<Sent>,
}

#[async_trait]
impl Consumer for LocalConsumer {
    async fn next(&mut self) -> Option<Delivery> {
        let Sent { tag, waiting } = self.from.recv().await?;
        let settle = LocalSettle {
            broker: self.broker.clone(),
            queue: self.queue.clone(),
            consumer: self.id,
            tag,
            settled: AtomicBool::new(false),
        };
        Some(Delivery::new(waiting.message, waiting.returns > 0, Box::new(settle)))
    }

    async fn stop(&mut self) -> Result<(), Error> {
        let mut broker = lock(&self.broker);
        broker.stop(&self.queue, self.id);
        self.from.close();
        while let Ok(Sent { tag, .. }) = self.from.try_recv() {
            broker.settle(&self.queue, self.id, tag, Verdict::Requeue);
        }
        Ok(())
    }
}

impl Drop for LocalConsumer {
    fn drop(&mut self) {
        lock(&self.broker).unsubscribe(&self.queue, self.id);
    }
}

struct LocalSettle {
    broker: Arc<Mutex<Broker>>,
    queue: Name,
    consumer: u64,
    tag: Tag,
    settled: AtomicBool,
}

impl LocalSettle {
    /// Settles the delivery the first time, and does nothing later.
    fn once(&self, settle: impl FnOnce(&mut Broker) -> bool) -> Result<(), Error> {
        if self.settled.swap(true, Ordering::Relaxed) || settle(&mut lock(&self.broker)) {
            return Ok(());
        }
        Err(Error::Disconnected("the consumer of this delivery has ended".to_owned()))
    }

    fn settle(&self, verdict: Verdict) -> Result<(), Error> {
        self.once(|broker| broker.settle(&self.queue, self.consumer, self.tag, verdict))
    }
}

#[async_trait]
impl Settle for LocalSettle {
    async fn ack(&self) -> Result<(), Error> {
        self.settle(Verdict::Ack)
    }

    async fn ack_multiple(&self) -> Result<(), Error> {
        self.once(|broker| broker.ack_multiple(&self.queue, self.consumer, self.tag))
    }

    async fn nack(&self, requeue: bool) -> Result<(), Error> {
        self.settle(if requeue { Verdict::Requeue } else { Verdict::DeadLetter })
    }

    fn is_current(&self) -> bool {
        lock(&self.broker).holds(&self.queue, self.consumer, self.tag)
    }
}
