//! The broker in memory: all exchanges and queues. One lock guards it, and nobody holds that lock for long.

use std::sync::Arc;

use ahash::{HashMap, HashSet};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::queue::{Queue, Sent, Tag};
use super::routing::{Exchange, Name, same_queue};
use crate::bus::message::DEATHS;
use crate::bus::{Error, ExchangeSpec, Message, QueueSpec};

/// How a delivery is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Ack,
    Requeue,
    DeadLetter,
}

#[derive(Default)]
pub(super) struct Broker {
    exchanges: HashMap<String, Exchange>,
    queues: HashMap<Name, Queue>,
    /// Ids of the connections that were closed.
    closed: HashSet<u64>,
    ids: u64,
}

fn no_queue(queue: &str) -> Error {
    Error::Topology(format!("no queue {queue:?}"))
}

impl Broker {
    /// A new id, for a connection or a consumer.
    pub(super) fn id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    pub(super) fn close(&mut self, connection: u64) {
        self.closed.insert(connection);
        let consumers: Vec<(Name, u64)> = self
            .queues
            .iter()
            .flat_map(|(name, queue)| queue.subscribers_of(connection).into_iter().map(|id| (name.clone(), id)))
            .collect();
        for (queue, id) in consumers {
            self.unsubscribe(&queue, id);
        }
    }

    pub(super) fn is_open(&self, connection: u64) -> bool {
        !self.closed.contains(&connection)
    }

    pub(super) fn declare_exchange(&mut self, spec: &ExchangeSpec) -> Result<(), Error> {
        match self.exchanges.get(&spec.name) {
            Some(known) => known.agrees(spec),
            None => {
                for (source, key) in &spec.bindings {
                    let no_source = || Error::Topology(format!("no exchange {source:?}"));
                    self.exchanges.get_mut(source).ok_or_else(no_source)?.lead_to(key, &spec.name);
                }
                self.exchanges.insert(spec.name.clone(), Exchange::new(spec.clone()));
                Ok(())
            }
        }
    }

    pub(super) fn declare_queue(&mut self, spec: &QueueSpec) -> Result<(), Error> {
        self.expire(&spec.name);
        if let Some(missing) = spec.bindings.iter().find(|(exchange, _)| !self.exchanges.contains_key(exchange)) {
            return Err(Error::Topology(format!("no exchange {:?}", missing.0)));
        }
        let name: Name = match self.queues.get_key_value(spec.name.as_str()) {
            Some((name, known)) => {
                same_queue(&known.spec, spec)?;
                name.clone()
            }
            None => {
                let name = Name::from(spec.name.as_str());
                self.queues.insert(name.clone(), Queue::new(spec.clone()));
                name
            }
        };
        if let Some(queue) = self.queues.get_mut(&name) {
            queue.touch();
        }
        for (exchange, key) in &spec.bindings {
            if let Some(exchange) = self.exchanges.get_mut(exchange) {
                exchange.bind(key, &name);
            }
        }
        Ok(())
    }

    /// Deletes a queue whose time without a consumer is over.
    fn expire(&mut self, queue: &str) {
        if self.queues.get(queue).is_some_and(|found| found.has_expired(Instant::now())) {
            self.delete_queue(queue);
        }
    }

    /// Deletes a queue. Its consumers end.
    pub(super) fn delete_queue(&mut self, queue: &str) {
        self.queues.remove(queue);
        for exchange in self.exchanges.values_mut() {
            exchange.unbind(queue);
        }
    }

    /// Removes a queue's bindings to the exchanges that `spec` names.
    pub(super) fn unbind_queue(&mut self, spec: &QueueSpec) {
        for (exchange, _) in &spec.bindings {
            if let Some(exchange) = self.exchanges.get_mut(exchange) {
                exchange.unbind(&spec.name);
            }
        }
    }

    pub(super) fn consumers(&mut self, queue: &str) -> Option<u64> {
        self.expire(queue);
        self.queues.get(queue).map(Queue::consumers)
    }

    pub(super) fn depth(&mut self, queue: &str) -> Option<u64> {
        self.expire(queue);
        self.queues.get(queue).map(Queue::depth)
    }

    pub(super) fn subscribe(
        &mut self,
        queue: &str,
        connection: u64,
        prefetch: u16,
        to: mpsc::UnboundedSender<Sent>,
    ) -> Result<(Name, u64), Error> {
        self.expire(queue);
        let id = self.id();
        let (name, _) = self.queues.get_key_value(queue).ok_or_else(|| no_queue(queue))?;
        let name = name.clone();
        let found = self.queues.get_mut(queue).ok_or_else(|| no_queue(queue))?;
        found.subscribe(id, connection, prefetch, to);
        Ok((name, id))
    }

    /// A consumer takes no more deliveries, but keeps what it holds.
    pub(super) fn stop(&mut self, name: &str, id: u64) {
        if let Some(queue) = self.queues.get_mut(name) {
            queue.stop(id);
        }
    }

    pub(super) fn unsubscribe(&mut self, name: &str, id: u64) {
        let Some(queue) = self.queues.get_mut(name) else { return };
        for message in queue.unsubscribe(id) {
            self.bury(name, &message, "delivery_limit");
        }
    }

    /// Routes a message into queues. `Ok(false)` means that no queue got it.
    pub(super) fn publish(&mut self, message: &Arc<Message>) -> Result<bool, Error> {
        let (mut ahead, mut seen) = (vec![message.exchange.clone()], Vec::new());
        let mut to: Vec<Name> = Vec::new();
        while let Some(at) = ahead.pop() {
            // Each exchange is visited once, so a loop of bindings ends.
            if seen.contains(&at) {
                continue;
            }
            let exchange = self.exchanges.get(&at).ok_or_else(|| Error::Topology(format!("no exchange {at:?}")))?;
            let mut found = exchange.route(&message.key);
            let onward: Vec<String> = exchange.leads_to(&message.key).map(str::to_owned).collect();
            let alternate = exchange.spec.alternate.clone();
            let now = Instant::now();
            let expired: Vec<Name> =
                found.extract_if(.., |name| self.queues.get(name).is_none_or(|queue| queue.has_expired(now))).collect();
            for name in expired {
                self.delete_queue(&name);
            }
            if found.is_empty() && onward.is_empty() {
                ahead.extend(alternate);
            }
            ahead.extend(onward);
            for name in found {
                if !to.contains(&name) {
                    to.push(name);
                }
            }
            seen.push(at);
        }
        for name in &to {
            if let Some(queue) = self.queues.get_mut(name) {
                queue.push(message.clone());
            }
        }
        Ok(!to.is_empty())
    }

    /// Settles a delivery. `false` means that the consumer doesn't hold it.
    pub(super) fn settle(&mut self, name: &str, consumer: u64, tag: Tag, verdict: Verdict) -> bool {
        let Some(queue) = self.queues.get_mut(name) else { return false };
        let Some((seq, waiting)) = queue.take(consumer, tag) else { return false };
        let dead = match verdict {
            Verdict::Ack => None,
            Verdict::Requeue => queue.come_back(seq, waiting).map(|message| (message, "delivery_limit")),
            Verdict::DeadLetter => Some((waiting.message, "rejected")),
        };
        queue.pump();
        if let Some((message, why)) = dead {
            self.bury(name, &message, why);
        }
        true
    }

    /// Acknowledges a delivery and all earlier ones of its consumer. `false` means that the consumer doesn't hold it.
    pub(super) fn ack_multiple(&mut self, name: &str, consumer: u64, tag: Tag) -> bool {
        let Some(queue) = self.queues.get_mut(name) else { return false };
        let held = queue.forget_through(consumer, tag);
        queue.pump();
        held
    }

    /// Whether a consumer holds a delivery.
    pub(super) fn holds(&self, name: &str, consumer: u64, tag: Tag) -> bool {
        self.queues.get(name).is_some_and(|queue| queue.holds(consumer, tag))
    }

    /// Sends a message to the dead-letter exchange of its queue, with the headers that RabbitMQ would add.
    fn bury(&mut self, queue: &str, message: &Message, why: &str) {
        let Some(to) = self.queues.get(queue).and_then(|queue| queue.spec.dead_letter.clone()) else { return };
        let mut message = message.clone();
        if message.headers.text("x-first-death-reason").is_none() {
            message.headers.set_text("x-first-death-reason", why);
            message.headers.set_text("x-first-death-queue", queue);
            message.headers.set_text("x-first-death-exchange", message.exchange.clone());
        }
        let deaths = message.headers.text(DEATHS).map_or(queue.to_owned(), |before| format!("{queue} {before}"));
        message.headers.set_text(DEATHS, deaths);
        message.exchange = to;
        // RabbitMQ would keep a message that has nowhere to go. Here this means that the topology is wrong.
        if !matches!(self.publish(&Arc::new(message)), Ok(true)) {
            tracing::warn!(messaging.destination = queue, "a dead letter was dropped: it reached no queue");
        }
    }
}
