//! Chooses the container that a job gets.

use std::time::Duration;

/// An idle container that a tenant may use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    /// Whether it already belongs to the tenant.
    pub(super) bound: bool,
    /// Whether its next sandbox is ready.
    pub(super) stocked: bool,
    /// Time since its last job began.
    pub(super) rested: Duration,
}

/// Chooses one of these containers, in this order:
///
/// - The tenant's own container that worked last, of those whose next sandbox is ready: its memory is still in the
///   processor's caches.
/// - An unused container, unless the tenant has as many as it can use at once.
/// - The tenant's own container that has rested longest.
pub(super) fn choose(suitable: &[Candidate], busy: usize, slots: usize) -> Option<usize> {
    let own = || suitable.iter().enumerate().filter(|(_, c)| c.bound);
    let stocked = own().filter(|(_, c)| c.stocked).min_by_key(|(_, c)| c.rested);
    let oldest = own().max_by_key(|(_, c)| c.rested);
    let unused = suitable.iter().position(|c| !c.bound);
    let may_use = own().count() + busy < slots || oldest.is_none();
    stocked.map(|(at, _)| at).or(unused.filter(|_| may_use)).or(oldest.map(|(at, _)| at))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNUSED: Candidate = Candidate { bound: false, stocked: true, rested: Duration::from_secs(9) };

    fn own(stocked: bool, ms: u64) -> Candidate {
        Candidate { bound: true, stocked, rested: Duration::from_millis(ms) }
    }

    #[test]
    fn a_tenants_own_whose_sandbox_stands_comes_first_and_of_those_the_warmest() {
        assert_eq!(choose(&[], 0, 4), None);
        assert_eq!(choose(&[UNUSED, UNUSED], 0, 4), Some(0));
        assert_eq!(choose(&[UNUSED, own(true, 500), own(true, 20)], 0, 4), Some(2));
        assert_eq!(choose(&[own(false, 500), own(true, 20)], 0, 4), Some(1));
    }

    #[test]
    fn where_none_stands_it_gets_another_but_no_more_than_it_can_use() {
        assert_eq!(choose(&[UNUSED, own(false, 1)], 0, 4), Some(0));
        assert_eq!(choose(&[UNUSED, own(false, 1)], 4, 4), Some(1));
        assert_eq!(choose(&[UNUSED, own(false, 1), own(false, 3), own(false, 2)], 1, 4), Some(2));
        assert_eq!(choose(&[own(false, 1)], 0, 4), Some(0));
        assert_eq!(choose(&[UNUSED], 4, 4), Some(0), "it has none at all");
    }
}
