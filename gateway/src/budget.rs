//! How many bytes the gateway holds for all callers together, so that no number of them can fill its memory.
//!
//! Whatever a caller can make the gateway keep counts from the first byte that is read to the last one that is written:
//! connections, requests, bodies and what is made of them, runs, and answers until the caller has them. What has no
//! length counts with an upper bound of what it takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use prometheus::{IntCounter, IntGauge};

use crate::Metrics;
use crate::problem::Problem;

/// A number of bytes that may be held. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Budget(Arc<Inner>);

struct Inner {
    most: usize,
    used: AtomicUsize,
    whole: Whole,
}

/// What a budget is a part of.
enum Whole {
    /// Nothing: it is the whole one, and these show it and what was refused.
    Shown(IntGauge, IntCounter),
    /// Another one, from which its bytes come, too.
    Of(Budget),
}

/// Bytes that are held, until this is dropped.
pub(crate) struct Held {
    budget: Budget,
    bytes: usize,
}

impl Budget {
    /// A budget that the metrics show.
    pub(crate) fn new(most: usize, metrics: &Metrics) -> Self {
        let whole = Whole::Shown(metrics.held.clone(), metrics.refused.with_label_values(&["bytes"]));
        Self(Arc::new(Inner { most, used: AtomicUsize::new(0), whole }))
    }

    /// A part of the budget that may hold this much of it. Parts may add up to more than the whole.
    pub(crate) fn part(&self, most: usize) -> Self {
        Self(Arc::new(Inner { most, used: AtomicUsize::new(0), whole: Whole::Of(self.clone()) }))
    }

    /// Begins to hold nothing.
    pub(crate) fn hold(&self) -> Held {
        Held { budget: self.clone(), bytes: 0 }
    }

    /// Whether this many bytes more may be held.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let used = self.0.used.load(Ordering::Relaxed);
        let room_here = used.saturating_add(bytes) <= self.0.most;
        room_here && if let Whole::Of(whole) = &self.0.whole { whole.has_room(bytes) } else { true }
    }

    /// Holds `now` bytes in the place of `before`.
    fn change(&self, before: usize, now: usize) {
        if now >= before {
            self.0.used.fetch_add(now - before, Ordering::Relaxed);
        } else {
            self.0.used.fetch_sub(before - now, Ordering::Relaxed);
        }
        match &self.0.whole {
            Whole::Of(whole) => whole.change(before, now),
            Whole::Shown(held, _) => held.add(now as i64 - before as i64),
        }
    }

    /// Why no more may be held. It is counted.
    pub(crate) fn full(&self) -> Problem {
        match &self.0.whole {
            Whole::Of(whole) => whole.full(),
            Whole::Shown(_, refused) => {
                refused.inc();
                Problem::new("gateway_full", "the gateway holds as many bytes as it may")
            }
        }
    }
}

impl Held {
    /// How many they are.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Holds this many bytes in all from now on. Returns whether all that is held is within the budget; it counts
    /// either way.
    pub(crate) fn set(&mut self, bytes: usize) -> bool {
        self.budget.change(self.bytes, bytes);
        self.bytes = bytes;
        self.budget.has_room(0)
    }

    /// Holds this many bytes more, if they are within the budget.
    pub(crate) fn grow(&mut self, more: usize) -> bool {
        let before = self.bytes;
        let fits = self.set(before + more);
        if !fits {
            self.set(before);
        }
        fits
    }

    /// As [`Held::grow`]: the problem is that they are not within the budget.
    pub(crate) fn take(&mut self, more: usize) -> Result<(), Problem> {
        if self.grow(more) { Ok(()) } else { Err(self.budget.full()) }
    }

    /// Adds bytes to others, which may become this many. Their memory is held before it is taken, by this or by what
    /// `grow` does.
    pub(crate) fn add<E>(
        &mut self,
        to: &mut Vec<u8>,
        more: &[u8],
        most: usize,
        grow: impl FnOnce(&mut Self, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let (length, room) = (to.len() + more.len(), to.capacity());
        if length > room {
            let wanted = length.max((room * 2).min(most)).max(512);
            grow(self, wanted - room)?;
            to.reserve_exact(wanted - to.len());
        }
        to.extend_from_slice(more);
        Ok(())
    }

    /// The memory of these bytes, which is held until the last of those who have it drops it, whoever that is: HTTP
    /// keeps what it could not write yet.
    pub(crate) fn carry(mut self, mut bytes: Vec<u8>) -> Bytes {
        bytes.shrink_to_fit();
        self.set(bytes.len());
        Bytes::from_owner(Carried { bytes, _held: self })
    }
}

struct Carried {
    bytes: Vec<u8>,
    _held: Held,
}

impl AsRef<[u8]> for Carried {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(most: usize) -> (Budget, IntGauge) {
        let metrics = Metrics::new(&prometheus::Registry::new()).unwrap();
        (Budget::new(most, &metrics), metrics.held)
    }

    #[test]
    fn what_is_carried_is_held_until_the_last_part_of_it_is_gone() {
        let (budget, shown) = budget(10);
        let mut held = budget.hold();
        held.take(8).unwrap();
        assert_eq!(held.take(3).unwrap_err().code, "gateway_full");
        let mut bytes = held.carry(vec![7; 8]);
        let last = bytes.split_off(7);
        drop(bytes);
        assert_eq!((shown.get(), &last[..]), (8, &[7][..]));
        drop(last);
        assert_eq!(shown.get(), 0);
    }

    #[test]
    fn what_is_dropped_is_free_again() {
        let (budget, shown) = budget(10);
        let (mut one, mut two) = (budget.hold(), budget.hold());
        assert!(one.grow(6) && two.grow(4) && !two.grow(1));
        assert_eq!(shown.get(), 10);
        assert!(!one.set(7) && !budget.has_room(0), "what must be held counts");
        drop(one);
        assert!(two.grow(6) && shown.get() == 10);
        assert!(two.set(3) && shown.get() == 3);
    }

    #[test]
    fn a_part_leaves_the_others_their_part() {
        let (budget, shown) = budget(10);
        let [mut one, mut two] = [budget.part(6).hold(), budget.part(6).hold()];
        assert!(one.grow(6) && !one.grow(1) && two.grow(4), "a part is bounded");
        assert!(!two.grow(1), "so is the whole");
        drop(one);
        assert!(two.grow(2) && !two.grow(1) && shown.get() == 6);
    }
}
