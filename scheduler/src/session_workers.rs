//! Chooses the worker for a new session: the one that has the smallest part of its sessions in use.

use std::collections::BTreeSet;

use ahash::HashMap;
use thermae_schemas::{PoolCapacity, WorkerId};

/// How full a worker is. The order of the fields is the order of their importance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Load {
    /// Sessions held, in millionths of those that it may hold.
    sessions: u64,
    /// Busy slots, in millionths of its slots.
    busy: u64,
}

/// The workers that can hold one more session of one pool, the emptiest first. All operations are O(log n).
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
    /// Newest version of the protocol that it speaks.
    protocol: u32,
}

fn part(n: u64, of: u64) -> u64 {
    n.saturating_mul(1_000_000).checked_div(of).unwrap_or(u64::MAX)
}

impl Occupancy {
    fn load(&self) -> Load {
        Load { sessions: part(self.held, self.max), busy: self.busy }
    }
}

impl SessionWorkers {
    /// Adds a worker from its heartbeat, if it can hold one more session. `protocol` is the newest version that it
    /// speaks.
    pub(crate) fn add(&mut self, worker: WorkerId, protocol: u32, held: usize, capacity: &PoolCapacity) {
        let (held, max) = (held as u64, u64::from(capacity.max_sessions));
        if held >= max {
            return;
        }
        let occupancy = Occupancy { held, max, protocol, busy: part(capacity.busy.into(), capacity.slots.into()) };
        self.order.insert((occupancy.load(), worker.clone()));
        self.workers.insert(worker, occupancy);
    }

    /// The emptiest worker that speaks this version of the protocol.
    pub(crate) fn best(&self, protocol: u32) -> Option<&WorkerId> {
        let speaks = |worker: &WorkerId| self.workers.get(worker).is_some_and(|known| known.protocol >= protocol);
        self.order.iter().map(|(_, worker)| worker).find(|worker| speaks(worker))
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
        if occupancy.held < occupancy.max {
            self.order.insert((occupancy.load(), worker.clone()));
        } else {
            self.workers.remove(worker);
        }
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

    #[test]
    fn sessions_go_to_the_emptiest_worker_in_turn() {
        let mut workers = SessionWorkers::default();
        workers.add(worker("full"), 1, 4, &capacity(0, 4));
        workers.add(worker("none"), 1, 0, &capacity(0, 0));
        workers.add(worker("half"), 1, 2, &capacity(0, 4));
        workers.add(worker("busy"), 1, 0, &capacity(4, 4));
        workers.add(worker("idle"), 1, 0, &capacity(0, 4));
        let mut order = Vec::new();
        while let Some(best) = workers.best(1).cloned() {
            workers.charge(&best);
            order.push(best.to_string());
        }
        assert_eq!(order[..3], ["idle", "busy", "idle"]);
        let count = |name: &str| order.iter().filter(|w| *w == name).count();
        assert_eq!((count("idle"), count("busy"), count("half"), order.len()), (4, 4, 2, 10));
    }

    #[test]
    fn a_session_goes_only_to_a_worker_that_speaks_its_protocol() {
        let mut workers = SessionWorkers::default();
        workers.add(worker("old"), 1, 0, &capacity(0, 4));
        workers.add(worker("new"), 2, 3, &capacity(0, 4));
        assert_eq!(workers.best(1), Some(&worker("old")));
        assert_eq!(workers.best(2), Some(&worker("new")));
        workers.charge(&worker("new"));
        assert_eq!(workers.best(2), None);
    }
}
