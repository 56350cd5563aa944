//! What a pool has, and the rules for who gets which container. All of it is under one lock that is held only briefly.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use thermae_schemas::TenantName;
use thermae_service::backoff::Backoff;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::PooledContainer;
use super::choice::{Candidate, choose};
use super::member::Member;
use super::plan::{Bounds, Counts, Plan};
use crate::options::Reuse;

/// Containers that nobody waits for are not made in this time after a job got a container. The job has the machine to
/// itself, and many jobs end within this time.
const QUIET: Duration = Duration::from_millis(100);

/// How long a series of jobs can put these containers off. After that, they are made while jobs run.
const AT_MOST: Duration = Duration::from_secs(1);

/// Most idle containers of tenants that a pool keeps, however small they are, because each has processes, and files
/// that the worker holds open.
const MOST_BOUND: usize = 128;

/// Shortest and longest pause after an attempt to make a container that failed.
const PAUSES: (Duration, Duration) = (Duration::from_millis(400), Duration::from_secs(5));

/// A job that waits for a container.
pub(super) struct Waiter {
    pub(super) tenant: TenantName,
    pub(super) tx: oneshot::Sender<PooledContainer>,
}

/// The state of a pool.
pub(super) struct State {
    reuse: Reuse,
    pub(super) idle: Vec<Member>,
    pub(super) waiters: VecDeque<Waiter>,
    /// Containers that are lent to jobs.
    pub(super) busy: usize,
    /// Containers that are back from jobs, and are not proven clean yet.
    pub(super) proving: usize,
    /// Number of paused runs of each tenant that has some. Their containers do not count as busy.
    pub(super) paused: HashMap<TenantName, u32>,
    /// Containers that are lent to sessions.
    pub(super) sessions: usize,
    pub(super) creating: usize,
    /// Attempts to make a container that failed in a row.
    pub(super) failures: u32,
    /// The pauses after these attempts.
    pub(super) pauses: Backoff,
    pub(super) retry_at: Option<Instant>,
    /// Since when fewer unbound containers than `warm` are ready or being made.
    pub(super) lacking: Option<Instant>,
    /// When a job last got a container.
    pub(super) taken: Option<Instant>,
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
            paused: HashMap::new(),
            sessions: 0,
            creating: 0,
            failures: 0,
            pauses: Backoff::new(PAUSES.0, PAUSES.1),
            retry_at: None,
            lacking: None,
            taken: None,
            closed: false,
        }
    }

    fn suits(&self, member: &Member, tenant: &TenantName) -> bool {
        self.reuse != Reuse::Tenant || member.tenant.as_ref().is_none_or(|t| t == tenant)
    }

    fn anyones(&self, member: &Member) -> bool {
        self.reuse != Reuse::Tenant || member.tenant.is_none()
    }

    /// Takes the idle container that suits the tenant best.
    pub(super) fn take(&mut self, tenant: &TenantName, slots: usize) -> Option<Member> {
        let (mut places, mut suitable) = (Vec::new(), Vec::new());
        for (at, member) in self.idle.iter().enumerate() {
            if self.suits(member, tenant) && member.is_fit() {
                places.push(at);
                suitable.push(Candidate {
                    bound: member.tenant.is_some(),
                    stocked: member.is_stocked(),
                    rested: member.used.elapsed(),
                });
            }
        }
        let at = choose(&suitable, self.busy, slots)?;
        self.taken = Some(Instant::now());
        Some(self.idle.remove(places[at]))
    }

    /// Takes the job that has waited longest for such a container, and still waits.
    pub(super) fn waiter_for(&mut self, member: &Member) -> Option<Waiter> {
        self.waiters.retain(|w| !w.tx.is_closed());
        let at = self.waiters.iter().position(|w| self.suits(member, &w.tenant))?;
        self.taken = Some(Instant::now());
        self.waiters.remove(at)
    }

    /// What the background task does next, with `memory` bytes for idle containers of tenants. `patient` says whether
    /// containers that nobody waits for can be made later.
    pub(super) fn plan(&mut self, mut bounds: Bounds, memory: u64, patient: bool) -> Plan {
        self.waiters.retain(|w| !w.tx.is_closed());
        let free = self.idle.iter().filter(|m| self.anyones(m)).count();
        let counts = Counts {
            free,
            bound: self.idle.len() - free,
            fits: fits(self.bound().map(|m| (m.used, m.weight())).collect(), memory),
            busy: self.busy + self.proving,
            creating: self.creating,
            waiting: self.waiters.len(),
        };
        let now = Instant::now();
        if free + self.creating < bounds.warm {
            self.lacking.get_or_insert(now);
        } else {
            self.lacking = None;
        }
        if !self.waiters.is_empty() {
            // Tenants come faster than containers, so the next job that must wait will come soon.
            bounds.ahead = bounds.parallel;
        } else if patient && self.later().is_some_and(|at| now < at) {
            bounds.ahead = 0;
        }
        counts.plan(bounds, self.reuse == Reuse::Shared)
    }

    /// When to make the containers that nobody waits for; `None` if they are not put off.
    pub(super) fn later(&self) -> Option<Instant> {
        Some((self.taken? + QUIET).min(self.lacking? + AT_MOST))
    }

    /// Idle containers that only one tenant may have.
    pub(super) fn bound(&self) -> impl Iterator<Item = &Member> + Clone {
        self.idle.iter().filter(|m| !self.anyones(m))
    }

    /// Takes the idle container of a tenant that was used longest ago.
    pub(super) fn evict(&mut self) -> Option<Member> {
        let at = (0..self.idle.len()).filter(|&i| !self.anyones(&self.idle[i])).min_by_key(|&i| self.idle[i].used)?;
        Some(self.idle.remove(at))
    }
}

/// How many of these containers fit into `memory` bytes, the most recently used first.
fn fits(mut members: Vec<(Instant, u64)>, memory: u64) -> usize {
    if members.iter().map(|(_, weight)| weight).sum::<u64>() <= memory {
        return members.len().min(MOST_BOUND);
    }
    members.sort_unstable_by_key(|(used, _)| std::cmp::Reverse(*used));
    let sums = members.iter().scan(0_u64, |sum, (_, weight)| {
        *sum = sum.saturating_add(*weight);
        Some(*sum)
    });
    sums.take_while(|sum| *sum <= memory).take(MOST_BOUND).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_recently_used_fit_first() {
        let now = Instant::now();
        let used = |seconds: u64, weight| (now + Duration::from_secs(seconds), weight);
        assert_eq!(fits(vec![], 0), 0);
        assert_eq!(fits(vec![used(1, 10), used(2, 20), used(3, 30)], 60), 3);
        assert_eq!(fits(vec![used(1, 10), used(2, 20), used(3, 30)], 59), 2);
        assert_eq!(
            fits(vec![used(3, 30), used(2, 20), used(1, 10)], 49),
            1,
            "a small one that is older does not slip in"
        );
        assert_eq!(fits(vec![used(1, 10)], 0), 0);
        assert_eq!(fits(vec![used(1, 1); 2 * MOST_BOUND], 1000), MOST_BOUND);
        assert_eq!(fits(vec![used(1, 1); 2 * MOST_BOUND], 200), MOST_BOUND);
    }

    #[test]
    fn what_nobody_waits_for_is_put_off_while_jobs_come_and_not_for_ever() {
        let mut state = State::new(Reuse::Tenant);
        let now = Instant::now();
        assert_eq!(state.later(), None, "no job came yet");
        (state.taken, state.lacking) = (Some(now), Some(now));
        assert_eq!(state.later(), Some(now + QUIET));
        state.taken = Some(now + AT_MOST);
        assert_eq!(state.later(), Some(now + AT_MOST));
    }
}
