//! What one SDK's connection may hold of the gateway's memory.

use std::sync::{Mutex, PoisonError};

use thermae_bridge::Holds;

use crate::Metrics;
use crate::budget::Held;

/// Bytes that a connection may hold even if others hold all that may be held.
const FREE: usize = 128 << 10;

/// The part of one connection. Each may hold a quarter of all.
pub(super) struct Share {
    held: Mutex<Held>,
    most: usize,
    metrics: Metrics,
}

impl Share {
    pub(super) fn new(held: Held, most: usize, metrics: Metrics) -> Self {
        Self { held: Mutex::new(held), most: most / 4, metrics }
    }
}

impl Holds for Share {
    fn hold(&self, bytes: usize) -> bool {
        let fits = self.held.lock().unwrap_or_else(PoisonError::into_inner).set(bytes);
        let may = bytes <= FREE || (fits && bytes <= self.most);
        if !may {
            self.metrics.refused.with_label_values(&["bytes"]).inc();
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;

    #[test]
    fn no_connection_holds_more_than_its_part() {
        let metrics = Metrics::new(&prometheus::Registry::new()).unwrap();
        let budget = Budget::new(16 * FREE, &metrics);
        let share = || Share::new(budget.hold(), 16 * FREE, metrics.clone());
        let shares: Vec<_> = (0..5).map(|_| share()).collect();
        assert!(
            shares[..4].iter().all(|share| share.hold(4 * FREE) && !share.hold(4 * FREE + 1) && share.hold(4 * FREE))
        );
        assert!(!shares[4].hold(2 * FREE) && shares[4].hold(FREE), "a small part is always free");
        drop(shares);
        assert_eq!(metrics.held.get(), 0);
    }
}
