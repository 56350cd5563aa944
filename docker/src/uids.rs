//! User ids of containers. Each container has its own, so that no two share the kernel's per-user limits.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// A range of user ids.
#[derive(Debug, Clone)]
pub(super) struct Uids(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    first: u32,
    count: u32,
    next: u32,
    used: BTreeSet<u32>,
}

/// A user id in use. Dropping it gives the id back.
#[derive(Debug)]
pub(super) struct Uid {
    uids: Uids,
    number: u32,
}

impl Uids {
    pub(super) fn new(first: u32, count: u32) -> Self {
        // Workers on one engine begin at different places, so that they rarely use the same ids.
        let next = uuid::Uuid::new_v4().as_u128() as u32 % count.max(1);
        Self(Arc::new(Mutex::new(State { first, count, next, used: BTreeSet::new() })))
    }

    /// The unused id that was used longest ago; `None` if all are in use.
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

/// Whom a table of subordinate ids (`/etc/subuid`) gives some of these ids. That user's own containers would run as the
/// same users.
pub(super) fn lent(table: &str, first: u32, count: u32) -> Option<&str> {
    let (first, end) = (u64::from(first), u64::from(first) + u64::from(count));
    table.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (whom, begin, size) = (fields.next()?, fields.next()?, fields.next()?);
        let begin: u64 = begin.trim().parse().ok()?;
        let size: u64 = size.trim().parse().ok()?;
        (begin < end && first < begin.saturating_add(size)).then_some(whom)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_that_are_lent_to_somebody_are_found() {
        let table = "# people\nanna:100000:65536\nben:165536:65536\n";
        assert_eq!(lent(table, 200_000, 50_000), Some("ben"));
        assert_eq!(lent(table, 99_999, 2), Some("anna"));
        assert_eq!(lent(table, 50_000, 50_000), None);
        assert_eq!(lent(table, 231_072, 50_000), None);
        let options = thermae_worker::DockerOptions::default();
        assert_eq!(lent(table, options.first_uid, options.uids), None);
    }

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
