//! How the last requests ended.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;

use super::Key;

/// Most requests that are remembered.
const MOST: usize = 4096;

/// Most bytes of their answers.
const MOST_BYTES: usize = 16 << 20;

/// The answers to the requests that ended last.
#[derive(Default)]
pub(super) struct Ended {
    answers: HashMap<Key, Bytes>,
    order: VecDeque<Key>,
    bytes: usize,
}

impl Ended {
    /// Remembers an answer, and forgets the oldest ones if there are too many.
    pub(super) fn remember(&mut self, key: Key, answer: Bytes) {
        self.bytes += answer.len();
        if let Some(old) = self.answers.insert(key.clone(), answer) {
            self.bytes -= old.len();
        } else {
            self.order.push_back(key);
        }
        while self.order.len() > MOST || (self.bytes > MOST_BYTES && self.order.len() > 1) {
            let Some(oldest) = self.order.pop_front() else { break };
            self.bytes -= self.answers.remove(&oldest).map_or(0, |answer| answer.len());
        }
    }

    /// The answer to this request.
    pub(super) fn find(&self, key: &Key) -> Option<Bytes> {
        self.answers.get(key).cloned()
    }

    /// Whether this request ended lately.
    pub(super) fn knows(&self, key: &Key) -> bool {
        self.answers.contains_key(key)
    }
}

#[cfg(test)]
mod tests {
    use thermae_schemas::{JobId, TenantName};

    use super::*;

    #[test]
    fn the_oldest_are_forgotten_first() {
        let key = |n: usize| (TenantName::new("acme").unwrap(), JobId::new(format!("r{n}")).unwrap());
        let mut ended = Ended::default();
        for n in 0..=MOST {
            ended.remember(key(n), Bytes::from_static(b"done"));
        }
        assert!(!ended.knows(&key(0)) && ended.knows(&key(1)) && ended.knows(&key(MOST)));
        ended.remember(key(0), Bytes::from(vec![0; MOST_BYTES]));
        assert!(ended.find(&key(0)).is_some() && !ended.knows(&key(MOST)));
        assert_eq!((ended.order.len(), ended.bytes), (1, MOST_BYTES));
    }
}
