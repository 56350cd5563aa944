//! One queue: messages that wait, deliveries that consumers hold, and messages that come back.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::bus::{Message, QueueSpec};

/// Position of a message in its queue. A message that comes back keeps it.
pub(super) type Seq = u64;

/// Number of a delivery, in the order in which its consumer got them.
pub(super) type Tag = u64;

/// A message in a queue or in a consumer's hands.
#[derive(Clone)]
pub(super) struct Waiting {
    pub(super) message: Arc<Message>,
    /// How often it came back to the queue unsettled.
    pub(super) returns: u32,
}

/// What a consumer gets through its channel.
pub(super) struct Sent {
    pub(super) tag: Tag,
    pub(super) waiting: Waiting,
}

/// What the queue knows of one consumer.
pub(super) struct Subscriber {
    pub(super) id: u64,
    /// Id of its connection.
    pub(super) connection: u64,
    /// How many deliveries it may hold at once. 0 once it has stopped.
    room: usize,
    next: Tag,
    out: BTreeMap<Tag, (Seq, Waiting)>,
    to: mpsc::UnboundedSender<Sent>,
}

pub(super) struct Queue {
    pub(super) spec: QueueSpec,
    next: Seq,
    ready: BTreeMap<Seq, Waiting>,
    /// In turn: the first one gets the next message.
    subscribers: VecDeque<Subscriber>,
    /// Since when it has had no consumer, or was last declared.
    idle_since: Instant,
}

impl Queue {
    pub(super) fn new(spec: QueueSpec) -> Self {
        let (next, ready, subscribers) = (0, BTreeMap::new(), VecDeque::new());
        Self { spec, next, ready, subscribers, idle_since: Instant::now() }
    }

    /// Called when the queue is declared again: restarts the time after which it expires.
    pub(super) fn touch(&mut self) {
        self.idle_since = Instant::now();
    }

    /// Whether it has had no consumer for longer than its expiry.
    pub(super) fn has_expired(&self, now: Instant) -> bool {
        let limit = self.spec.expires.unwrap_or(Duration::MAX);
        self.subscribers.is_empty() && now.duration_since(self.idle_since) >= limit
    }

    pub(super) fn consumers(&self) -> u64 {
        self.subscribers.len() as u64
    }

    pub(super) fn depth(&self) -> u64 {
        self.ready.len() as u64
    }

    pub(super) fn push(&mut self, message: Arc<Message>) {
        self.ready.insert(self.next, Waiting { message, returns: 0 });
        self.next += 1;
        self.pump();
    }

    pub(super) fn subscribe(&mut self, id: u64, connection: u64, prefetch: u16, to: mpsc::UnboundedSender<Sent>) {
        // As in AMQP, 0 means no limit.
        let room = if prefetch == 0 { usize::MAX } else { prefetch.into() };
        self.subscribers.push_back(Subscriber { id, connection, room, next: 0, out: BTreeMap::new(), to });
        self.pump();
    }

    /// A consumer takes no more deliveries, but keeps what it holds.
    pub(super) fn stop(&mut self, id: u64) {
        if let Some(subscriber) = self.subscribers.iter_mut().find(|subscriber| subscriber.id == id) {
            subscriber.room = 0;
        }
    }

    /// Removes a consumer, and puts back what it held. Returns the messages that came back too often, which are not put
    /// back.
    pub(super) fn unsubscribe(&mut self, id: u64) -> Vec<Arc<Message>> {
        let Some(at) = self.subscribers.iter().position(|subscriber| subscriber.id == id) else { return Vec::new() };
        let Some(subscriber) = self.subscribers.remove(at) else { return Vec::new() };
        if self.subscribers.is_empty() {
            self.idle_since = Instant::now();
        }
        let poisoned = subscriber.out.into_values().filter_map(|(seq, waiting)| self.come_back(seq, waiting)).collect();
        self.pump();
        poisoned
    }

    /// Ids of a connection's consumers.
    pub(super) fn subscribers_of(&self, connection: u64) -> Vec<u64> {
        self.subscribers.iter().filter(|found| found.connection == connection).map(|found| found.id).collect()
    }

    /// Takes a delivery from a consumer. `None` if the consumer doesn't hold it.
    pub(super) fn take(&mut self, id: u64, tag: Tag) -> Option<(Seq, Waiting)> {
        self.subscribers.iter_mut().find(|subscriber| subscriber.id == id)?.out.remove(&tag)
    }

    /// Forgets a delivery of a consumer and all earlier ones. `false` if the consumer doesn't hold that delivery.
    pub(super) fn forget_through(&mut self, id: u64, tag: Tag) -> bool {
        let Some(subscriber) = self.subscribers.iter_mut().find(|subscriber| subscriber.id == id) else { return false };
        let held = subscriber.out.contains_key(&tag);
        if held {
            subscriber.out = subscriber.out.split_off(&(tag + 1));
        }
        held
    }

    /// Whether a consumer holds a delivery.
    pub(super) fn holds(&self, id: u64, tag: Tag) -> bool {
        self.subscribers.iter().any(|subscriber| subscriber.id == id && subscriber.out.contains_key(&tag))
    }

    /// Puts a delivery back in its old place. If it came back too often, it isn't put back but returned.
    pub(super) fn come_back(&mut self, seq: Seq, mut waiting: Waiting) -> Option<Arc<Message>> {
        waiting.returns += 1;
        if self.spec.delivery_limit.is_some_and(|limit| waiting.returns > limit) {
            return Some(waiting.message);
        }
        self.ready.insert(seq, waiting);
        None
    }

    /// Sends waiting messages to the consumers that have room, in turn.
    pub(super) fn pump(&mut self) {
        let mut full = 0;
        while full < self.subscribers.len() && !self.ready.is_empty() {
            let Some(mut subscriber) = self.subscribers.pop_front() else { return };
            if subscriber.out.len() < subscriber.room {
                full = 0;
                if let Some((seq, waiting)) = self.ready.pop_first() {
                    let tag = subscriber.next;
                    subscriber.next += 1;
                    subscriber.out.insert(tag, (seq, waiting.clone()));
                    // If the receiver is gone, its consumer is about to be removed, which puts the message back.
                    let _ = subscriber.to.send(Sent { tag, waiting });
                }
            } else {
                full += 1;
            }
            self.subscribers.push_back(subscriber);
        }
    }
}
