//! How many bytes the gateway holds for all callers together, so that no number of them can fill its memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use prometheus::IntGauge;

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
    /// Nothing: it is the whole one, and the gauge shows it.
    Gauge(IntGauge),
    /// Another one, from which its bytes come, too.
    Of(Budget),
}

/// Bytes that are held, until this is dropped.
pub(crate) struct Held {
    budget: Budget,
    bytes: usize,
}

impl Budget {
    /// A budget that this gauge shows.
    pub(crate) fn new(most: usize, shown: IntGauge) -> Self {
        Self(Arc::new(Inner { most, used: AtomicUsize::new(0), whole: Whole::Gauge(shown) }))
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
            Whole::Gauge(gauge) => gauge.add(now as i64 - before as i64),
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
        let shown = IntGauge::new("held", "held").unwrap();
        (Budget::new(most, shown.clone()), shown)
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
