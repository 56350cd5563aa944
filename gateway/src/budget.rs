//! How many bytes the gateway holds for all callers together, so that no number of them can fill its memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of bytes that may be held. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Budget(Arc<Inner>);

struct Inner {
    most: usize,
    used: AtomicUsize,
}

/// Bytes that are held, until this is dropped.
pub(crate) struct Held {
    budget: Budget,
    bytes: usize,
}

impl Budget {
    pub(crate) fn new(most: usize) -> Self {
        Self(Arc::new(Inner { most, used: AtomicUsize::new(0) }))
    }

    /// Begins to hold nothing.
    pub(crate) fn hold(&self) -> Held {
        Held { budget: self.clone(), bytes: 0 }
    }

    pub(crate) fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Whether this many bytes more may be held.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.used().saturating_add(bytes) <= self.0.most
    }
}

impl Held {
    /// Holds this many bytes in all from now on. Returns whether all that is held is within the budget; it counts
    /// either way.
    pub(crate) fn set(&mut self, bytes: usize) -> bool {
        let used = &self.budget.0.used;
        if bytes >= self.bytes {
            used.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else {
            used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
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

    #[test]
    fn what_is_dropped_is_free_again() {
        let budget = Budget::new(10);
        let (mut one, mut two) = (budget.hold(), budget.hold());
        assert!(one.grow(6) && two.grow(4) && !two.grow(1));
        assert_eq!(budget.used(), 10);
        assert!(!one.set(7) && !budget.has_room(0), "what must be held counts");
        drop(one);
        assert!(two.grow(6) && budget.used() == 10);
        assert!(two.set(3) && budget.used() == 3);
    }
}
