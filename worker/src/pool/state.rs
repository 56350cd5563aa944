//! What a pool has, and the rules of who may have what: pure, under one short lock.

use std::collections::VecDeque;
use std::time::Duration;

use thermae_schemas::TenantName;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Held;
use super::member::Member;
use crate::options::Reuse;

/// So long a container may be making its next sandbox after a job.
const REST: Duration = Duration::from_millis(10);

/// A job that waits for a container.
pub(super) struct Waiter {
    pub(super) tenant: TenantName,
    pub(super) tx: oneshot::Sender<Held>,
}

/// What a pool has.
pub(super) struct State {
    reuse: Reuse,
    pub(super) idle: Vec<Member>,
    pub(super) waiters: VecDeque<Waiter>,
    /// Lent to jobs.
    pub(super) busy: usize,
    /// Back from jobs, and not proven clean yet.
    pub(super) proving: usize,
    /// Lent to sessions.
    pub(super) sessions: usize,
    pub(super) creating: usize,
    /// Attempts at making a container that failed in a row.
    pub(super) failures: u32,
    pub(super) retry_at: Option<Instant>,
    pub(super) closed: bool,
}

impl State {
    pub(super) fn new(reuse: Reuse) -> Self {
        Self {
            reuse,
            idle: Vec::new(),
            waiters: VecDeque::new(),
            busy: 0,
            proving: 0,
            sessions: 0,
            creating: 0,
            failures: 0,
            retry_at: None,
            closed: false,
        }
    }

    fn suits(&self, member: &Member, tenant: &TenantName) -> bool {
        self.reuse != Reuse::Tenant || member.tenant.as_ref().is_none_or(|t| t == tenant)
    }

    fn anyones(&self, member: &Member) -> bool {
        self.reuse != Reuse::Tenant || member.tenant.is_none()
    }

    /// Takes the idle member that suits best.
    pub(super) fn take(&mut self, tenant: &TenantName, slots: usize) -> Option<Member> {
        let (mut places, mut suitable) = (Vec::new(), Vec::new());
        for (at, member) in self.idle.iter().enumerate() {
            if member.is_fit() && self.suits(member, tenant) {
                places.push(at);
                suitable.push(Candidate { bound: member.tenant.is_some(), rested: member.used.elapsed() });
            }
        }
        let at = choose(&suitable, self.busy, slots)?;
        Some(self.idle.remove(places[at]))
    }

    /// Takes the one that has waited longest for such a member and still does.
    pub(super) fn waiter_for(&mut self, member: &Member) -> Option<Waiter> {
        self.waiters.retain(|w| !w.tx.is_closed());
        let at = self.waiters.iter().position(|w| self.suits(member, &w.tenant))?;
        self.waiters.remove(at)
    }

    /// What the background does next.
    pub(super) fn plan(&mut self, bounds: Bounds) -> Plan {
        self.waiters.retain(|w| !w.tx.is_closed());
        let free = self.idle.iter().filter(|m| self.anyones(m)).count();
        let counts = Counts {
            free,
            bound: self.idle.len() - free,
            busy: self.busy + self.proving,
            creating: self.creating,
            waiting: self.waiters.len(),
        };
        counts.plan(bounds, self.reuse == Reuse::Shared)
    }

    /// Takes the idle member of some tenant that was used longest ago.
    pub(super) fn evict(&mut self) -> Option<Member> {
        let at = (0..self.idle.len()).filter(|&i| !self.anyones(&self.idle[i])).min_by_key(|&i| self.idle[i].used)?;
        Some(self.idle.remove(at))
    }
}

/// An idle member that a tenant may have.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    /// Whether it is the tenant's already.
    bound: bool,
    /// Since its last job began.
    rested: Duration,
}

/// Of the tenant's own the one that rested longest. While even that one is still at work on its next sandbox, one that nobody
/// used: but no more of them than the tenant can use at once.
fn choose(suitable: &[Candidate], busy: usize, slots: usize) -> Option<usize> {
    let own = suitable.iter().position(|c| c.bound);
    let unused = suitable.iter().position(|c| !c.bound);
    let (Some(own), Some(unused)) = (own, unused) else { return own.or(unused) };
    let kept = suitable.iter().filter(|c| c.bound).count() + busy;
    Some(if suitable[own].rested >= REST || kept >= slots { own } else { unused })
}

/// What the background does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) create: usize,
    pub(super) evict: usize,
}

/// How many containers a pool may have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Jobs that run at once.
    pub(super) slots: usize,
    /// Kept for whoever comes.
    pub(super) warm: usize,
    /// Made at once.
    pub(super) parallel: usize,
}

/// How many containers a pool has, sessions' apart.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    /// Idle, for anybody.
    free: usize,
    /// Idle, for one tenant only.
    bound: usize,
    /// Lent, or about to be idle again.
    busy: usize,
    creating: usize,
    /// Jobs that wait for one.
    waiting: usize,
}

impl Counts {
    /// `warm` are kept for whoever comes. All together there are never more than `slots + warm`; at that bound somebody's
    /// idle container goes only when nobody else could have one.
    fn plan(self, bounds: Bounds, shared: bool) -> Plan {
        let Bounds { slots, warm, parallel } = bounds;
        let total = self.free + self.bound + self.busy + self.creating;
        let most = if shared { slots.max(warm) } else { slots + warm };
        let coming = self.free + self.creating;
        let room = most.saturating_sub(total);
        let wanted = warm.max(self.waiting).saturating_sub(coming);
        let urgent = self.waiting.max(1).saturating_sub(coming + room).min(self.bound);
        let create = wanted.min(room + urgent).min(parallel.saturating_sub(self.creating));
        Plan { create, evict: create.saturating_sub(room) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { slots: 4, warm: 2, parallel: 2 };

    fn plan(counts: Counts) -> (usize, usize) {
        let plan = counts.plan(BOUNDS, false);
        (plan.create, plan.evict)
    }

    #[test]
    fn a_tenants_own_that_rested_longest_comes_first() {
        let own = |ms| Candidate { bound: true, rested: Duration::from_millis(ms) };
        let unused = Candidate { bound: false, rested: Duration::from_secs(9) };
        assert_eq!(choose(&[], 0, 4), None);
        assert_eq!(choose(&[unused, unused], 0, 4), Some(0));
        assert_eq!(choose(&[unused, own(500), own(20)], 0, 4), Some(1), "in the order in which they came back");
        assert_eq!(choose(&[unused, own(1)], 0, 4), Some(0), "its next sandbox is not made yet");
        assert_eq!(choose(&[unused, own(3), own(2), own(1)], 1, 4), Some(1), "no more than it can use at once");
        assert_eq!(choose(&[own(1)], 0, 4), Some(0));
    }

    #[test]
    fn the_warm_ones_are_made_ahead_and_so_many_at_once() {
        assert_eq!(plan(Counts::default()), (2, 0));
        assert_eq!(plan(Counts { creating: 2, ..Counts::default() }), (0, 0));
        assert_eq!(plan(Counts { free: 2, ..Counts::default() }), (0, 0));
        assert_eq!(plan(Counts { free: 1, busy: 1, ..Counts::default() }), (1, 0));
    }

    #[test]
    fn at_the_bound_an_idle_one_of_another_tenants_gives_way() {
        let full = Counts { bound: 6, ..Counts::default() };
        assert_eq!(plan(full), (1, 1), "one is always there for a new tenant");
        assert_eq!(plan(Counts { waiting: 2, ..full }), (2, 2));
        assert_eq!(plan(Counts { bound: 5, free: 1, ..Counts::default() }), (0, 0), "nobody is displaced for comfort");
        assert_eq!(plan(Counts { bound: 5, creating: 1, waiting: 1, ..Counts::default() }), (0, 0));
        assert_eq!(plan(Counts { busy: 4, creating: 2, waiting: 3, ..Counts::default() }), (0, 0), "nothing to take");
    }

    #[test]
    fn shared_containers_are_no_more_than_can_be_used() {
        let counts = Counts { free: 2, busy: 2, ..Counts::default() };
        assert_eq!(counts.plan(BOUNDS, true), Plan { create: 0, evict: 0 });
        let counts = Counts { free: 0, busy: 4, ..Counts::default() };
        assert_eq!(counts.plan(BOUNDS, true), Plan { create: 0, evict: 0 });
    }
}
