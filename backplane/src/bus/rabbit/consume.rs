//! Consumers. Each has its own channel, so that closing the channel returns exactly the deliveries that it holds.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::{FutureExt, StreamExt};
use lapin::Acker;
use lapin::Channel;
use lapin::options::{BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions};
use lapin::types::FieldTable;
use thermae_service::backoff::Backoff;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::convert::{message, short};
use super::errors::{down, mapped};
use super::link::{Link, Shared, answer};
use crate::bus::{Consumer, Delivery, Error, Settle};

/// Wait between two attempts to subscribe again while the connection is up.
const AGAIN: Duration = Duration::from_millis(250);

/// A consumer that survives the loss of its connection.
pub(super) struct RabbitConsumer {
    shared: Arc<Shared>,
    queue: String,
    prefetch: u16,
    active: Option<Subscription>,
    /// A subscription that is being opened. Callers may drop `next` at any time, and the next call goes on with it.
    opening: Option<Opening>,
    stopped: bool,
}

/// A subscription on one connection. Dropping it closes the channel, and unsettled deliveries go back to the queue.
struct Subscription {
    link: Arc<Link>,
    channel: Channel,
    stream: lapin::Consumer,
    _place: OwnedSemaphorePermit,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        // Acknowledgements hold handles of the channel. So it must be closed: dropping this handle isn't enough.
        if self.channel.status().connected() {
            let channel = self.channel.clone();
            let close = async move { channel.close(200, "done".into()).await };
            let mut close = Box::pin(close);
            // The first poll sends the frame. Nothing waits for the answer.
            let _ = close.as_mut().now_or_never();
        }
    }
}

impl Subscription {
    async fn subscribed(shared: &Shared, link: Arc<Link>, queue: &str, prefetch: u16) -> Result<Self, Error> {
        let request = async {
            let (channel, place) = link.consumer_channel(shared).await?;
            channel.basic_qos(prefetch, BasicQosOptions::default()).await.map_err(|error| mapped(&error))?;
            let options = BasicConsumeOptions::default();
            let stream = channel
                .basic_consume(short(queue)?, short("")?, options, FieldTable::default())
                .await
                .map_err(|error| mapped(&error))?;
            Ok((channel, stream, place))
        };
        let (channel, stream, _place) = link.answer(request).await?;
        Ok(Self { link, channel, stream, _place })
    }
}

/// A task that opens a subscription. If nobody waits for it any more, it closes what it has opened.
///
/// It is a task of its own because the client library (lapin 4.12) must get to the end of this request. If the caller
/// of `basic_consume` is dropped before the broker's answer, the library keeps the channel and the new consumer open:
/// jobs that the broker delivers to it are in nobody's hands until the connection ends.
struct Opening(JoinHandle<Result<Subscription, Error>>);

impl Opening {
    fn start(shared: &Arc<Shared>, link: Arc<Link>, queue: &str, prefetch: u16) -> Self {
        let (within, queue) = (shared.clone(), queue.to_owned());
        let opened = async move { Subscription::subscribed(&within, link, &queue, prefetch).await };
        Self(shared.tasks.spawn(opened))
    }

    /// Waits for the end of the task. May be dropped and called again until it has returned.
    async fn opened(&mut self) -> Result<Subscription, Error> {
        (&mut self.0).await.unwrap_or_else(|_| Err(down()))
    }
}

impl RabbitConsumer {
    pub(super) async fn open(shared: Arc<Shared>, link: Arc<Link>, queue: &str, prefetch: u16) -> Result<Self, Error> {
        let active = Opening::start(&shared, link, queue, prefetch).opened().await?;
        Ok(Self { shared, queue: queue.to_owned(), prefetch, active: Some(active), opening: None, stopped: false })
    }

    /// Subscribes on the next link that is up. `false` means that no delivery will come any more.
    async fn subscribe(&mut self) -> bool {
        let opening = match &mut self.opening {
            Some(opening) => opening,
            none => {
                let Some(link) = self.shared.next_link().await else { return false };
                none.insert(Opening::start(&self.shared, link, &self.queue, self.prefetch))
            }
        };
        let opened = opening.opened().await;
        self.opening = None;
        match opened {
            Ok(active) => {
                tracing::debug!(messaging.destination = self.queue, "subscribed again");
                self.active = Some(active);
                true
            }
            Err(error @ (Error::Topology(_) | Error::Denied(_))) => {
                tracing::warn!(messaging.destination = self.queue, %error, "a queue can no longer be consumed");
                false
            }
            Err(_) => {
                Backoff::steady(AGAIN).wait().await;
                true
            }
        }
    }
}

fn delivered(delivery: lapin::message::Delivery, channel: &Channel, link: &Link) -> Delivery {
    let lapin::message::Delivery { exchange, routing_key, redelivered, properties, data, acker, .. } = delivery;
    let message = message(exchange.as_str(), routing_key.as_str(), &properties, data);
    let settle = RabbitSettle { acker, channel: channel.clone(), lost: link.lost.clone() };
    Delivery::new(message, redelivered, Box::new(settle))
}

#[async_trait]
impl Consumer for RabbitConsumer {
    async fn next(&mut self) -> Option<Delivery> {
        while !self.stopped && !self.shared.closed.is_cancelled() {
            let Some(active) = &mut self.active else {
                if self.subscribe().await {
                    continue;
                }
                return None;
            };
            let Subscription { link, channel, stream, .. } = active;
            let next = tokio::select! {
                biased;
                next = stream.next() => next,
                () = link.lost.cancelled() => None,
                () = self.shared.closed.cancelled() => None,
            };
            match next {
                Some(Ok(delivery)) => return Some(delivered(delivery, channel, link)),
                // The channel or the connection ended, or the broker ended the subscription (the queue was deleted or
                // moved).
                Some(Err(_)) | None => self.active = None,
            }
        }
        None
    }

    async fn stop(&mut self) -> Result<(), Error> {
        self.stopped = true;
        self.opening = None;
        let Some(active) = &mut self.active else { return Ok(()) };
        let tag = active.stream.tag();
        let cancel = active.channel.basic_cancel(tag, BasicCancelOptions::default());
        active.link.answer(cancel.map(|done| done.map_err(|error| mapped(&error)))).await?;
        // Deliveries that the broker sent before it processed the cancel.
        let mut unseen = VecDeque::new();
        while let Some(Some(Ok(delivery))) = active.stream.next().now_or_never() {
            unseen.push_back(delivery);
        }
        for delivery in unseen {
            delivered(delivery, &active.channel, &active.link).requeue().await?;
        }
        Ok(())
    }
}

struct RabbitSettle {
    acker: Acker,
    channel: Channel,
    /// Cancelled when the link has ended.
    lost: CancellationToken,
}

fn settled(done: lapin::Result<bool>, usable: bool) -> Result<(), Error> {
    match done {
        Ok(true) => Ok(()),
        // It was settled before, so there is nothing to do.
        Ok(false) if usable => Ok(()),
        Ok(false) => Err(Error::Disconnected("the consumer of this delivery has ended".to_owned())),
        Err(error) => Err(mapped(&error)),
    }
}

impl RabbitSettle {
    async fn acknowledge(&self, multiple: bool) -> Result<(), Error> {
        let done = self.acker.ack(BasicAckOptions { multiple });
        answer(&self.lost, done.map(|done| settled(done, !self.acker.poisoned()))).await
    }
}

#[async_trait]
impl Settle for RabbitSettle {
    async fn ack(&self) -> Result<(), Error> {
        self.acknowledge(false).await
    }

    async fn ack_multiple(&self) -> Result<(), Error> {
        // The channel has no other consumer, so "multiple" reaches only this consumer's deliveries.
        self.acknowledge(true).await
    }

    async fn nack(&self, requeue: bool) -> Result<(), Error> {
        let done = self.acker.nack(BasicNackOptions { requeue, ..BasicNackOptions::default() });
        answer(&self.lost, done.map(|done| settled(done, !self.acker.poisoned()))).await
    }

    fn is_current(&self) -> bool {
        self.channel.status().connected() && !self.lost.is_cancelled() && !self.acker.poisoned()
    }
}
