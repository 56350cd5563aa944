//! The latest events of a run.

use std::collections::VecDeque;

use bytes::Bytes;

use super::LostView;

/// Bytes that an event needs besides its text.
const OVERHEAD: usize = 96;

/// The latest events of a run, numbered from 1. The last one always stays.
pub(crate) struct Events {
    kept: VecDeque<(Box<str>, Bytes)>,
    /// Number of the last event.
    last: u64,
    bytes: usize,
    most: usize,
    most_bytes: usize,
}

/// What a follower gets next.
#[derive(Debug, Clone)]
pub(crate) enum Next {
    /// An event.
    Event {
        /// Its number.
        number: u64,
        /// Its kind.
        kind: Box<str>,
        /// The event, as the fleet sent it.
        text: Bytes,
    },
    /// Events that are not kept any more.
    Gap {
        /// Number of the first.
        from: u64,
        /// Number of the last.
        to: u64,
    },
    /// No result will come.
    Lost(LostView),
    /// Nothing has happened for a while, or the gateway stops.
    Nothing,
}

impl Next {
    /// Number of the last event that it stands for.
    pub(crate) fn number(&self) -> u64 {
        match self {
            Self::Event { number, .. } => *number,
            Self::Gap { to, .. } => *to,
            Self::Lost(_) | Self::Nothing => 0,
        }
    }
}

impl Events {
    pub(crate) fn new(most: usize, most_bytes: usize) -> Self {
        Self { kept: VecDeque::new(), last: 0, bytes: 0, most, most_bytes }
    }

    /// Number of the last event; 0 if there was none.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Bytes that the events need.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds an event. Returns how many old ones were dropped for it.
    pub(crate) fn push(&mut self, kind: &str, text: Bytes) -> usize {
        self.last += 1;
        self.bytes += text.len() + OVERHEAD;
        self.kept.push_back((kind.into(), text));
        let mut dropped = 0;
        while (self.kept.len() > self.most || self.bytes > self.most_bytes) && self.drop_oldest() {
            dropped += 1;
        }
        dropped
    }

    /// Drops the oldest event. Returns `false` if only one is left.
    pub(crate) fn drop_oldest(&mut self) -> bool {
        if self.kept.len() < 2 {
            return false;
        }
        if let Some((_, text)) = self.kept.pop_front() {
            self.bytes -= text.len() + OVERHEAD;
        }
        true
    }

    /// What comes after this event; `None` if nothing does yet.
    pub(crate) fn after(&self, number: u64) -> Option<Next> {
        if number >= self.last {
            return None;
        }
        let first = self.last + 1 - self.kept.len() as u64;
        if number + 1 < first {
            return Some(Next::Gap { from: number + 1, to: first - 1 });
        }
        let at = usize::try_from(number + 1 - first).ok()?;
        let (kind, text) = self.kept.get(at)?;
        Some(Next::Event { number: number + 1, kind: kind.clone(), text: text.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(events: &Events, number: u64) -> String {
        match events.after(number) {
            None => "nothing".to_owned(),
            Some(Next::Event { number, kind, text }) => format!("{number} {kind} {}", String::from_utf8_lossy(&text)),
            Some(other) => format!("{other:?}"),
        }
    }

    #[test]
    fn events_are_numbered_and_a_gap_is_said() {
        let mut events = Events::new(2, 10_000);
        assert_eq!((told(&events, 0).as_str(), events.last()), ("nothing", 0));
        assert_eq!((events.push("a", "1".into()), events.push("b", "2".into())), (0, 0));
        assert_eq!((told(&events, 0), told(&events, 1)), ("1 a 1".to_owned(), "2 b 2".to_owned()));
        assert_eq!(events.push("c", "3".into()), 1);
        assert_eq!(told(&events, 0), "Gap { from: 1, to: 1 }");
        assert_eq!((told(&events, 1), told(&events, 3)), ("2 b 2".to_owned(), "nothing".to_owned()));
        assert_eq!(told(&events, 99), "nothing");
    }

    #[test]
    fn too_many_bytes_drop_the_oldest_and_never_the_last() {
        let mut events = Events::new(100, 1000);
        events.push("a", vec![0; 500].into());
        assert_eq!(events.push("b", vec![0; 5000].into()), 1);
        assert_eq!((events.bytes(), events.drop_oldest()), (5000 + OVERHEAD, false));
        assert_eq!(events.after(1).unwrap().number(), 2);
    }
}
