//! Users for containers: one each, so that none shares another's per-user limits.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// A range of users.
#[derive(Debug, Clone)]
pub(super) struct Uids(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    first: u32,
    count: u32,
    next: u32,
    used: BTreeSet<u32>,
}

/// A user in use; given back on drop.
#[derive(Debug)]
pub(super) struct Uid {
    uids: Uids,
    number: u32,
}

impl Uids {
    pub(super) fn new(first: u32, count: u32) -> Self {
        // Workers on one engine begin at different places, so that they seldom meet.
        let next = uuid::Uuid::new_v4().as_u128() as u32 % count.max(1);
        Self(Arc::new(Mutex::new(State { first, count, next, used: BTreeSet::new() })))
    }

    /// A user that nobody has; the one used longest ago.
    pub(super) fn take(&self) -> Option<Uid> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..state.count {
            let number = state.first + state.next;
            state.next = (state.next + 1) % state.count;
            if state.used.insert(number) {
                return Some(Uid { uids: self.clone(), number });
            }
        }
        None
    }
}

impl Uid {
    pub(super) fn number(&self) -> u32 {
        self.number
    }
}

impl Drop for Uid {
    fn drop(&mut self) {
        self.uids.0.lock().unwrap_or_else(PoisonError::into_inner).used.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_user_is_given_out_twice() {
        let uids = Uids::new(1000, 3);
        let held: Vec<_> = std::iter::from_fn(|| uids.take()).collect();
        let numbers: BTreeSet<_> = held.iter().map(Uid::number).collect();
        assert_eq!(numbers, BTreeSet::from([1000, 1001, 1002]));
        drop(held);
        assert!(uids.take().is_some());
    }
}
