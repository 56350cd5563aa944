//! Publishes messages.
//!
//! A message that needs a confirm has a channel to itself until the confirm is there. Channels are reused, the last
//! used first. A shared channel would not work: the broker may batch confirms and puts returned messages between them,
//! so a return can't be matched to its message. An error (a forbidden key, a missing exchange) also ends the whole
//! channel. Messages that need no confirm share one channel, and so keep their order.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use lapin::options::{BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions};
use lapin::types::ShortString;
use lapin::{BasicProperties, Channel, Confirmation, Connection};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::channel;
use super::convert::{properties, short};
use super::errors::{down, mapped};
use super::link::answer;
use crate::bus::{Confirm, Error, Message};

/// Most messages that wait for a confirm at once, each on its own channel. All client processes of a tenant share its
/// user's channels (`max-channels`), so one process takes only a part of them.
const AT_ONCE: usize = 512;

type Sending = BoxFuture<'static, Result<Confirmation, Error>>;

/// The publishing channels of one connection.
pub(super) struct Publishers {
    confirmed: Arc<Pool>,
    plain: Mutex<Channel>,
    /// Completes when the last message without a confirm is on the wire. A request may overtake a message that isn't
    /// written yet.
    written: Mutex<Option<Shared<BoxFuture<'static, ()>>>>,
    permits: Arc<Semaphore>,
    /// Cancelled when the connection has ended or has no channel left.
    ended: CancellationToken,
    tasks: TaskTracker,
}

/// Channels in confirm mode that no message uses at the moment.
struct Pool(Mutex<Vec<Channel>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn open_confirmed(connection: &Connection, worn: &CancellationToken) -> Result<Channel, Error> {
    let channel = channel::open(connection, worn).await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await.map_err(|error| mapped(&error))?;
    Ok(channel)
}

impl Pool {
    fn take(&self) -> Option<Channel> {
        let mut free = lock(&self.0);
        while let Some(channel) = free.pop() {
            if channel.status().connected() {
                return Some(channel);
            }
        }
        None
    }

    fn put(&self, channel: Channel) {
        lock(&self.0).push(channel);
    }
}

impl Publishers {
    /// `ended` is cancelled when this connection has ended. This code cancels it when the connection has no channel
    /// left.
    pub(super) async fn open(
        connection: &Connection,
        ended: CancellationToken,
        tasks: TaskTracker,
    ) -> Result<Self, Error> {
        let plain = channel::open(connection, &ended).await?;
        // The first message should not wait for a channel.
        let first = open_confirmed(connection, &ended).await?;
        Ok(Self {
            confirmed: Arc::new(Pool(Mutex::new(vec![first]))),
            plain: Mutex::new(plain),
            written: Mutex::new(None),
            permits: Arc::new(Semaphore::new(AT_ONCE)),
            ended,
            tasks,
        })
    }

    /// Hands a message to the connection.
    pub(super) async fn publish(&self, connection: &Connection, message: Message) -> Result<Confirm, Error> {
        let out = Outgoing::new(message)?;
        if !(out.mandatory || out.persistent) {
            return self.publish_plain(connection, out).await;
        }
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| down())?;
        let channel = match self.confirmed.take() {
            Some(channel) => channel,
            None => open_confirmed(connection, &self.ended).await?,
        };
        let Outgoing { exchange, key, .. } = &out;
        let (exchange, key) = (exchange.to_string(), key.to_string());
        let mut sending = out.send(channel.clone());
        // The first poll puts the frames into the connection's queue. Later polls only wait for the confirm.
        let first = poll_once(&mut sending);
        let flight = Flight {
            sending: first.is_none().then_some(sending),
            channel: Some(channel),
            pool: self.confirmed.clone(),
            permit: Some(permit),
            ended: self.ended.clone(),
            tasks: self.tasks.clone(),
        };
        match first {
            Some(Err(error @ Error::Disconnected(_))) => Err(error),
            first => Ok(Confirm::new(async move {
                let confirmation = flight.land(first).await?;
                match confirmation {
                    Confirmation::Ack(Some(_)) => Err(Error::Unroutable { exchange, key }),
                    Confirmation::Nack(_) => Err(Error::Refused { exchange, key }),
                    Confirmation::Ack(None) | Confirmation::NotRequested => Ok(()),
                }
            })),
        }
    }

    /// Waits for messages without a confirm. The broker processes a channel's requests in order, so the answer to one
    /// request means that everything before it is done.
    pub(super) async fn flush(&self) -> Result<(), Error> {
        let written = lock(&self.written).clone();
        if let Some(written) = written {
            written.await;
        }
        let plain = lock(&self.plain).clone();
        // A harmless request: a prefetch changes nothing on a channel without consumers.
        plain.basic_qos(0, BasicQosOptions::default()).await.map_err(|error| mapped(&error))
    }

    async fn publish_plain(&self, connection: &Connection, out: Outgoing) -> Result<Confirm, Error> {
        if !lock(&self.plain).status().connected() {
            // An error has ended the channel.
            let fresh = channel::open(connection, &self.ended).await?;
            let mut plain = lock(&self.plain);
            if !plain.status().connected() {
                *plain = fresh;
            }
        }
        let first = {
            // The lock keeps the frames of two messages apart.
            let plain = lock(&self.plain);
            let mut sending = out.send(plain.clone());
            let first = poll_once(&mut sending);
            *lock(&self.written) = first.is_none().then(|| sending.map(drop).boxed().shared());
            first
        };
        match first {
            Some(Err(error)) => Err(error),
            _ => Ok(Confirm::new(std::future::ready(Ok(())))),
        }
    }
}

fn poll_once(sending: &mut Sending) -> Option<Result<Confirmation, Error>> {
    match sending.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

/// A message, converted to AMQP.
struct Outgoing {
    exchange: ShortString,
    key: ShortString,
    properties: BasicProperties,
    body: bytes::Bytes,
    mandatory: bool,
    persistent: bool,
}

impl Outgoing {
    fn new(message: Message) -> Result<Self, Error> {
        Ok(Self {
            exchange: short(&message.exchange)?,
            key: short(&message.key)?,
            properties: properties(&message)?,
            body: message.body,
            mandatory: message.mandatory,
            persistent: message.persistent,
        })
    }

    /// Sends the message with the first poll, and waits for the confirm.
    fn send(self, channel: Channel) -> Sending {
        let Self { exchange, key, properties, body, mandatory, .. } = self;
        Box::pin(async move {
            let options = BasicPublishOptions { mandatory, ..BasicPublishOptions::default() };
            let sent = channel.basic_publish(exchange, key, options, &body, properties).await;
            drop(body);
            match sent {
                Ok(confirm) => confirm.await.map_err(|error| mapped(&error)),
                Err(error) => Err(mapped(&error)),
            }
        })
    }
}

/// A message on its way, with its channel. If this is dropped early, a task waits for the confirm, so that the channel
/// is free again.
struct Flight {
    sending: Option<Sending>,
    channel: Option<Channel>,
    pool: Arc<Pool>,
    permit: Option<OwnedSemaphorePermit>,
    ended: CancellationToken,
    tasks: TaskTracker,
}

impl Flight {
    async fn land(mut self, first: Option<Result<Confirmation, Error>>) -> Result<Confirmation, Error> {
        let done = match (first, self.sending.as_mut()) {
            (Some(done), _) => done,
            (None, Some(sending)) => answer(&self.ended, sending).await,
            (None, None) => Err(down()),
        };
        self.sending = None;
        self.end(done.is_ok());
        done
    }

    fn end(&mut self, well: bool) {
        if let Some(channel) = self.channel.take()
            && well
        {
            self.pool.put(channel);
        }
        self.permit = None;
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let (Some(mut sending), Some(channel)) = (self.sending.take(), self.channel.take()) else { return };
        let (pool, permit, ended) = (self.pool.clone(), self.permit.take(), self.ended.clone());
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        self.tasks.spawn(async move {
            if answer(&ended, &mut sending).await.is_ok() {
                pool.put(channel);
            }
            drop(permit);
        });
    }
}
