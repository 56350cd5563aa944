//! One queue: what waits, what is out with which consumer, and what comes back.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::bus::{Message, QueueSpec};

/// Place of a message in its queue, kept when it comes back.
pub(super) type Seq = u64;

/// A delivery of a consumer: its number in the order in which the consumer was handed them.
pub(super) type Tag = u64;

/// A message in a queue.
#[derive(Clone)]
pub(super) struct Waiting {
    pub(super) message: Arc<Message>,
    /// How often it came back.
    pub(super) returns: u32,
}

/// What a consumer is sent.
pub(super) struct Sent {
    pub(super) tag: Tag,
    pub(super) waiting: Waiting,
}

/// A consumer's side of its queue.
pub(super) struct Subscriber {
    pub(super) id: u64,
    /// The connection it came on.
    pub(super) connection: u64,
    /// Deliveries it may hold; none once it has stopped.
    room: usize,
    next: Tag,
    out: BTreeMap<Tag, (Seq, Waiting)>,
    to: mpsc::UnboundedSender<Sent>,
}

/// A queue.
pub(super) struct Queue {
    pub(super) spec: QueueSpec,
    next: Seq,
    ready: BTreeMap<Seq, Waiting>,
    /// In turn: the first one is next.
    subscribers: VecDeque<Subscriber>,
    /// Since when nobody consumes it.
    idle_since: Instant,
}

impl Queue {
    pub(super) fn new(spec: QueueSpec) -> Self {
        let (next, ready, subscribers) = (0, BTreeMap::new(), VecDeque::new());
        Self { spec, next, ready, subscribers, idle_since: Instant::now() }
    }

    /// Declared again: its time to live without a consumer starts anew.
    pub(super) fn touch(&mut self) {
        self.idle_since = Instant::now();
    }

    /// Whether it has been without a consumer for too long.
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
        // As in AMQP, 0 means no bound.
        let room = if prefetch == 0 { usize::MAX } else { prefetch.into() };
        self.subscribers.push_back(Subscriber { id, connection, room, next: 0, out: BTreeMap::new(), to });
        self.pump();
    }

    /// A consumer wants no more, but keeps what it holds.
    pub(super) fn stop(&mut self, id: u64) {
        if let Some(subscriber) = self.subscribers.iter_mut().find(|subscriber| subscriber.id == id) {
            subscriber.room = 0;
        }
    }

    /// A consumer went: what it held comes back. Returns what came back too often.
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

    /// Consumers of a connection.
    pub(super) fn subscribers_of(&self, connection: u64) -> Vec<u64> {
        self.subscribers.iter().filter(|found| found.connection == connection).map(|found| found.id).collect()
    }

    /// Takes a delivery out of a consumer's hands: `None` where it is not in them.
    pub(super) fn take(&mut self, id: u64, tag: Tag) -> Option<(Seq, Waiting)> {
        self.subscribers.iter_mut().find(|subscriber| subscriber.id == id)?.out.remove(&tag)
    }

    /// Forgets a delivery in a consumer's hands and all that it was handed before: whether it was in them.
    pub(super) fn forget_through(&mut self, id: u64, tag: Tag) -> bool {
        let Some(subscriber) = self.subscribers.iter_mut().find(|subscriber| subscriber.id == id) else { return false };
        let held = subscriber.out.contains_key(&tag);
        if held {
            subscriber.out = subscriber.out.split_off(&(tag + 1));
        }
        held
    }

    /// Whether a delivery is in a consumer's hands.
    pub(super) fn holds(&self, id: u64, tag: Tag) -> bool {
        self.subscribers.iter().any(|subscriber| subscriber.id == id && subscriber.out.contains_key(&tag))
    }

    /// A delivery comes back to its old place; `Some` where it came back too often, and is not put back.
    pub(super) fn come_back(&mut self, seq: Seq, mut waiting: Waiting) -> Option<Arc<Message>> {
        waiting.returns += 1;
        if self.spec.delivery_limit.is_some_and(|limit| waiting.returns > limit) {
            return Some(waiting.message);
        }
        self.ready.insert(seq, waiting);
        None
    }

    /// Hands out what waits to those who have room, in turn.
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
                    // A receiver that is gone is being unsubscribed: that puts it back.
                    let _ = subscriber.to.send(Sent { tag, waiting });
                }
            } else {
                full += 1;
            }
            self.subscribers.push_back(subscriber);
        }
    }
}
