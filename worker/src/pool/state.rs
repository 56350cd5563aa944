//! What a pool has, and the rules of who may have what: pure, under one short lock.

use std::collections::VecDeque;

use thermae_schemas::TenantName;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Held;
use super::member::Member;
use crate::options::Reuse;

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

    /// Takes the idle member that suits best: the tenant's own that was used last, else one that nobody used.
    pub(super) fn take(&mut self, tenant: &TenantName) -> Option<Member> {
        let alive = |m: &Member| !m.conn.closed().is_cancelled();
        let own = self.idle.iter().rposition(|m| alive(m) && m.tenant.is_some() && self.suits(m, tenant));
        let at = own.or_else(|| self.idle.iter().rposition(|m| alive(m) && self.suits(m, tenant)))?;
        Some(self.idle.remove(at))
    }

    /// Takes the one that has waited longest for such a member and still does.
    pub(super) fn waiter_for(&mut self, member: &Member) -> Option<Waiter> {
        self.waiters.retain(|w| !w.tx.is_closed());
        let at = self.waiters.iter().position(|w| self.suits(member, &w.tenant))?;
        self.waiters.remove(at)
    }

    /// How many containers to make now, and how many idle ones of other tenants to remove for that.
    ///
    /// `warm` are kept for whoever comes. All together (sessions' apart) there are never more than `slots + warm`; at
    /// that bound somebody's idle container goes only when nobody else could have one.
    pub(super) fn plan(&mut self, slots: usize, warm: usize, parallel: usize) -> Plan {
        self.waiters.retain(|w| !w.tx.is_closed());
        let free = self.idle.iter().filter(|m| self.anyones(m)).count();
        let total = self.idle.len() + self.busy + self.creating;
        let bound = if self.reuse == Reuse::Shared { slots.max(warm) } else { slots + warm };
        let wanted = warm.max(self.waiters.len()).saturating_sub(free + self.creating);
        let room = bound.saturating_sub(total);
        let evict = if room < wanted {
            let urgent = self.waiters.len().max(1).saturating_sub(free + self.creating + room);
            urgent.min(self.idle.len() - free)
        } else {
            0
        };
        let create = wanted.min(room + evict).min(parallel.saturating_sub(self.creating));
        Plan { create, evict: evict.min(create.saturating_sub(room)) }
    }

    /// Takes the idle member of some tenant that was used longest ago.
    pub(super) fn evict(&mut self) -> Option<Member> {
        let at = (0..self.idle.len()).filter(|&i| !self.anyones(&self.idle[i])).min_by_key(|&i| self.idle[i].used)?;
        Some(self.idle.remove(at))
    }
}

/// What the background does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) create: usize,
    pub(super) evict: usize,
}
