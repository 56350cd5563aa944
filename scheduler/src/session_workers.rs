//! Chooses the worker for a new session: the one that has the smallest part of its sessions in use. If all are full,
//! one that has a session of the same tenant which can make room. If there is none either, any: only a worker knows for
//! sure whether it can make room, and it answers at once if it can't.

use std::collections::BTreeSet;
use std::sync::Arc;

use ahash::{HashMap, HashSet};
use thermae_schemas::{PoolCapacity, TenantName, WorkerId};

/// How full a worker is. The order of the fields is the order of their importance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Load {
    /// Sessions held, in millionths of those that it may hold.
    sessions: u64,
    /// Busy slots, in millionths of its slots.
    busy: u64,
}

/// The workers that hold sessions of one pool, the emptiest first. All operations are O(log n), except for
/// [`SessionWorkers::best`] when all workers are full.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionWorkers {
    order: BTreeSet<(Load, WorkerId)>,
    workers: HashMap<WorkerId, Occupancy>,
}

/// How many sessions a worker holds and may hold, and how busy it is (in millionths).
#[derive(Debug, Clone)]
struct Occupancy {
    held: u64,
    max: u64,
    busy: u64,
    /// The tenants of those sessions that can make room for another one.
    evictable: Arc<HashSet<TenantName>>,
    /// Newest version of the protocol that it speaks.
    protocol: u32,
}

fn part(n: u64, of: u64) -> u64 {
    n.saturating_mul(1_000_000).checked_div(of).unwrap_or(u64::MAX)
}

impl Occupancy {
    fn is_full(&self) -> bool {
        self.held >= self.max
    }

    fn load(&self) -> Load {
        Load { sessions: part(self.held, self.max), busy: self.busy }
    }
}

impl SessionWorkers {
    /// Adds a worker from its heartbeat, if it holds sessions at all. `protocol` is the newest version that it speaks,
    /// `evictable` the tenants of those sessions that can make room for another one.
    pub(crate) fn add(
        &mut self,
        worker: WorkerId,
        protocol: u32,
        held: usize,
        capacity: &PoolCapacity,
        evictable: impl Iterator<Item = TenantName>,
    ) {
        let (held, max) = (held as u64, u64::from(capacity.max_sessions));
        if max == 0 {
            return;
        }
        let (busy, evictable) = (part(capacity.busy.into(), capacity.slots.into()), Arc::new(evictable.collect()));
        let occupancy = Occupancy { held, max, busy, evictable, protocol };
        self.order.insert((occupancy.load(), worker.clone()));
        self.workers.insert(worker, occupancy);
    }

    /// The best worker that speaks this version of the protocol, for a session of this tenant.
    pub(crate) fn best(&self, protocol: u32, tenant: &TenantName) -> Option<&WorkerId> {
        let known = self.order.iter().filter_map(|(_, worker)| Some((worker, self.workers.get(worker)?)));
        let mut full = None;
        for (worker, occupancy) in known.filter(|(_, occupancy)| occupancy.protocol >= protocol) {
            if !occupancy.is_full() || occupancy.evictable.contains(tenant) {
                return Some(worker);
            }
            full.get_or_insert(worker);
        }
        full
    }

    /// Removes a worker.
    pub(crate) fn leave_out(&mut self, worker: &WorkerId) {
        if let Some(occupancy) = self.workers.remove(worker) {
            self.order.remove(&(occupancy.load(), worker.clone()));
        }
    }

    /// Notes that a session was placed on this worker, which counts as fuller until its next heartbeat.
    pub(crate) fn charge(&mut self, worker: &WorkerId) {
        let Some(occupancy) = self.workers.get_mut(worker) else { return };
        self.order.remove(&(occupancy.load(), worker.clone()));
        occupancy.held += 1;
        self.order.insert((occupancy.load(), worker.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacity(busy: u32, max_sessions: u32) -> PoolCapacity {
        PoolCapacity { slots: 4, busy, max_sessions, languages: Vec::new() }
    }

    fn worker(name: &str) -> WorkerId {
        WorkerId::new(name).unwrap()
    }

    fn tenant(name: &str) -> TenantName {
        TenantName::new(name).unwrap()
    }

    fn add(workers: &mut SessionWorkers, name: &str, protocol: u32, held: usize, capacity: &PoolCapacity) {
        workers.add(worker(name), protocol, held, capacity, std::iter::empty());
    }

    #[test]
    fn sessions_go_to_the_emptiest_worker_in_turn() {
        let mut workers = SessionWorkers::default();
        add(&mut workers, "full", 1, 4, &capacity(0, 4));
        add(&mut workers, "none", 1, 0, &capacity(0, 0));
        add(&mut workers, "half", 1, 2, &capacity(0, 4));
        add(&mut workers, "busy", 1, 0, &capacity(4, 4));
        add(&mut workers, "idle", 1, 0, &capacity(0, 4));
        let mut order = Vec::new();
        for _ in 0..10 {
            let best = workers.best(1, &tenant("acme")).unwrap().clone();
            workers.charge(&best);
            order.push(best.to_string());
        }
        assert_eq!(order[..3], ["idle", "busy", "idle"]);
        let count = |name: &str| order.iter().filter(|w| *w == name).count();
        assert_eq!((count("idle"), count("busy"), count("half"), count("full")), (4, 4, 2, 0));
        // All are full now. A worker that can hold none is still no candidate.
        for _ in 0..8 {
            let best = workers.best(1, &tenant("acme")).unwrap().clone();
            assert_ne!(best, worker("none"));
            workers.charge(&best);
        }
    }

    #[test]
    fn a_full_worker_takes_a_session_if_one_of_the_same_tenant_can_make_room() {
        let mut workers = SessionWorkers::default();
        add(&mut workers, "a", 1, 4, &capacity(0, 4));
        workers.add(worker("b"), 1, 4, &capacity(4, 4), [tenant("acme")].into_iter());
        assert_eq!(workers.best(1, &tenant("acme")), Some(&worker("b")));
        assert_eq!(workers.best(1, &tenant("globex")), Some(&worker("a")), "any: the worker decides");
        // One with room comes first.
        add(&mut workers, "c", 1, 3, &capacity(4, 4));
        assert_eq!(workers.best(1, &tenant("acme")), Some(&worker("c")));
        workers.charge(&worker("c"));
        assert_eq!(workers.best(1, &tenant("acme")), Some(&worker("b")));
        workers.leave_out(&worker("b"));
        assert_eq!(workers.best(1, &tenant("acme")), Some(&worker("a")));
    }

    #[test]
    fn a_session_goes_only_to_a_worker_that_speaks_its_protocol() {
        let mut workers = SessionWorkers::default();
        add(&mut workers, "old", 1, 0, &capacity(0, 4));
        add(&mut workers, "new", 2, 4, &capacity(0, 4));
        assert_eq!(workers.best(1, &tenant("acme")), Some(&worker("old")));
        assert_eq!(workers.best(2, &tenant("acme")), Some(&worker("new")));
        workers.leave_out(&worker("new"));
        assert_eq!(workers.best(2, &tenant("acme")), None);
    }
}
