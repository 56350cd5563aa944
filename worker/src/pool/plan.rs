//! Calculates what a pool's background task does next. This is pure arithmetic.

/// Number of containers that the background task makes and evicts next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) create: usize,
    pub(super) evict: usize,
}

/// How many containers a pool may have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Number of jobs that run at once.
    pub(super) slots: usize,
    /// Containers that are kept for any tenant.
    pub(super) warm: usize,
    /// Containers that are made at once for jobs that wait.
    pub(super) parallel: usize,
    /// Containers that are made at once ahead of jobs.
    pub(super) ahead: usize,
}

/// How many containers a pool has, without those of sessions.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    /// Idle, for any tenant.
    pub(super) free: usize,
    /// Idle, for one tenant only.
    pub(super) bound: usize,
    /// Number of the bound ones that fit into the memory for them.
    pub(super) fits: usize,
    /// Lent, or about to be idle again.
    pub(super) busy: usize,
    pub(super) creating: usize,
    /// Jobs that wait for a container.
    pub(super) waiting: usize,
}

impl Counts {
    /// Plans so that `warm` containers are kept for any tenant, and that the idle containers of tenants never take
    /// their place. A tenant's idle container is evicted if it fits neither into the memory for them nor into what is
    /// left of `slots + warm`. The least recently used one goes first.
    pub(super) fn plan(self, bounds: Bounds, shared: bool) -> Plan {
        let Bounds { slots, warm, parallel, ahead } = bounds;
        let most = if shared { slots.max(warm) } else { slots + warm };
        let (coming, used) = (self.free + self.creating, self.free + self.busy + self.creating);
        let room = most.saturating_sub(used);
        let urgent = self.waiting.saturating_sub(coming).min(parallel.saturating_sub(self.creating));
        let comfort = warm.saturating_sub(coming).min(ahead.saturating_sub(self.creating));
        let create = urgent.max(comfort).min(room);
        Plan { create, evict: self.bound.saturating_sub(self.fits.max(room - create)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { slots: 4, warm: 2, parallel: 2, ahead: 2 };

    fn plan(counts: Counts) -> (usize, usize) {
        let plan = counts.plan(BOUNDS, false);
        (plan.create, plan.evict)
    }

    #[test]
    fn the_warm_ones_are_made_ahead_and_so_many_at_once() {
        assert_eq!(plan(Counts::default()), (2, 0));
        assert_eq!(plan(Counts { creating: 2, ..Counts::default() }), (0, 0));
        assert_eq!(plan(Counts { free: 2, ..Counts::default() }), (0, 0));
        assert_eq!(plan(Counts { free: 1, busy: 1, ..Counts::default() }), (1, 0));
    }

    #[test]
    fn while_jobs_have_the_machine_only_what_they_wait_for_is_made() {
        let later = Bounds { ahead: 0, ..BOUNDS };
        let busy = Counts { busy: 3, ..Counts::default() };
        assert_eq!(busy.plan(later, false), Plan { create: 0, evict: 0 });
        assert_eq!(Counts { waiting: 1, ..busy }.plan(later, false), Plan { create: 1, evict: 0 });
        let one = Bounds { ahead: 1, ..BOUNDS };
        assert_eq!(busy.plan(one, false).create, 1);
        assert_eq!(Counts { creating: 1, ..busy }.plan(one, false).create, 0);
        assert_eq!(Counts { creating: 1, waiting: 2, ..busy }.plan(one, false).create, 1);
    }

    #[test]
    fn tenants_idle_ones_are_kept_as_far_as_their_memory_goes() {
        let many = Counts { bound: 30, fits: 30, free: 2, ..Counts::default() };
        assert_eq!(plan(many), (0, 0));
        assert_eq!(plan(Counts { free: 0, ..many }), (2, 0), "and the warm ones all the same");
        assert_eq!(plan(Counts { fits: 20, ..many }), (0, 10));
        assert_eq!(plan(Counts { fits: 20, busy: 4, ..many }), (0, 10));
    }

    #[test]
    fn without_memory_for_them_they_have_what_is_left_of_slots_and_warm() {
        let full = Counts { bound: 6, ..Counts::default() };
        assert_eq!(plan(full), (2, 2), "those for a new tenant are always there");
        assert_eq!(plan(Counts { bound: 4, free: 2, ..Counts::default() }), (0, 0));
        assert_eq!(plan(Counts { bound: 5, creating: 2, waiting: 1, ..Counts::default() }), (0, 1));
        assert_eq!(plan(Counts { busy: 4, creating: 2, waiting: 3, ..Counts::default() }), (0, 0), "no room for more");
    }

    #[test]
    fn shared_containers_are_no_more_than_can_be_used() {
        let counts = Counts { free: 2, busy: 2, ..Counts::default() };
        assert_eq!(counts.plan(BOUNDS, true), Plan { create: 0, evict: 0 });
        let counts = Counts { free: 0, busy: 4, ..Counts::default() };
        assert_eq!(counts.plan(BOUNDS, true), Plan { create: 0, evict: 0 });
    }
}
