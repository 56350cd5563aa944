//! The dispatcher's state for one pool.

use std::collections::BTreeSet;
use std::time::Duration;

use ahash::HashMap;
use thermae_backplane::registry::Target;
use thermae_schemas::{Class, OLDEST, TenantName, WorkerId};
use tokio::time::Instant;

use super::Waiting;
use super::reserve::Reserve;
use crate::fair::{Fair, Ticket};
use crate::fleet::PoolView;
use crate::head::Head;
use crate::lane::Lane;
use crate::options::Options;
use crate::session_workers::SessionWorkers;

/// How long no new session is placed on a worker whose queue didn't exist.
const AVOIDED_FOR: Duration = Duration::from_secs(10);

/// The deadline of a waiting job. Deadlines are ordered by time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Due {
    at: u64,
    pub(super) ticket: Ticket,
    pub(super) tenant: TenantName,
    pub(super) class: Class,
}

/// The jobs of one pool that wait for their turn, and an estimate of the pool's free credit.
#[derive(Default)]
pub(super) struct Pool {
    pub(super) fair: Fair<TenantName, Head>,
    /// Jobs whose session or protocol no worker can take at the moment, and jobs that a full registry has a record of.
    /// They are tried again with the next snapshot of the workers.
    pub(super) parked: Vec<Waiting>,
    /// Estimate of the free credit: how many jobs can be handed out before the registry will probably refuse one.
    pub(super) allowance: i64,
    /// The pool's credit: how many of its jobs may be handed out at once.
    pub(super) credit: u32,
    /// How many times credit was given back since this scheduler leads.
    pub(super) returned: u64,
    pub(super) session_workers: SessionWorkers,
    /// The slots that the tenants leave to each other.
    pub(super) reserve: Reserve,
    /// Workers whose queues didn't exist, and until when no new session is placed on them.
    avoided: HashMap<WorkerId, Instant>,
    /// Newest version of the protocol that the pool's workers speak. Jobs of a newer one are parked.
    pub(super) protocol: u32,
    due: BTreeSet<Due>,
    /// Where jobs wait that may have credit already ([`Head::may_have_credit`]), in the order in which they came. If
    /// they have all of the pool's credit, none comes back before they are handed out.
    credited: BTreeSet<(Ticket, TenantName, Class)>,
}

impl Pool {
    /// Takes over a new snapshot of the workers.
    pub(super) fn see(&mut self, view: &PoolView) {
        self.credit = view.credit;
        self.allowance = i64::from(view.credit) - i64::from(view.used);
        self.session_workers = view.session_workers.clone();
        self.reserve.see(view.slots, Instant::now());
        self.protocol = view.protocol;
        let now = Instant::now();
        self.avoided.retain(|_, until| *until > now);
        self.avoided.keys().for_each(|worker| self.session_workers.leave_out(worker));
    }

    /// Leaves out a worker whose queue doesn't exist: it would look empty, and be chosen again and again.
    pub(super) fn avoid(&mut self, worker: WorkerId) {
        self.session_workers.leave_out(&worker);
        self.avoided.insert(worker, Instant::now() + AVOIDED_FOR);
    }

    /// Notices of credit may have been lost. Assumes that all credit is free: the registry refuses what it isn't.
    pub(super) fn trust(&mut self) {
        self.allowance = self.credit.into();
    }

    /// Whether a worker of the pool speaks the job's version of the protocol, as far as is known.
    pub(super) fn speaks(&self, head: &Head) -> bool {
        head.protocol <= self.protocol.max(OLDEST)
    }

    /// Whether a job must wait for other workers, before the registry is asked about it: its protocol is too new for
    /// those that are there, and it is new; or it is behind another job of its session that waits here.
    pub(super) fn must_park(&self, waiting: &Waiting) -> bool {
        let head = &waiting.item;
        let Some(session) = &head.session else { return !self.speaks(head) && !head.may_have_credit };
        let same = |other: &Head| other.session.as_ref().is_some_and(|theirs| theirs.id == session.id);
        self.parked.iter().any(|parked| parked.tenant == waiting.tenant && same(&parked.item))
    }

    pub(super) fn may_start(&self) -> bool {
        (self.allowance > 0 && !self.fair.is_empty()) || !self.credited.is_empty()
    }

    pub(super) fn push(&mut self, weight: u32, head: Head) {
        let (tenant, class, deadline) = (head.key.tenant.clone(), head.lane.class, head.deadline);
        self.reserve.used_by(&tenant, Instant::now());
        let may_have_credit = head.may_have_credit;
        let ticket = self.fair.push(&tenant, weight, class, head);
        if may_have_credit {
            self.credited.insert((ticket, tenant.clone(), class));
        }
        if let Some(at) = deadline {
            self.due.insert(Due { at, ticket, tenant, class });
        }
    }

    pub(super) fn unpop(&mut self, weight: u32, waiting: Waiting) {
        if let Some(due) = due(&waiting) {
            self.due.insert(due);
        }
        if waiting.item.may_have_credit {
            self.credited.insert((waiting.ticket, waiting.tenant.clone(), waiting.class));
        }
        self.fair.unpop(weight, waiting);
    }

    /// Takes the job whose turn it is. `None` if nothing may be handed out with new credit.
    pub(super) fn pop(&mut self) -> Option<Waiting> {
        if self.allowance <= 0 {
            return None;
        }
        let popped = self.fair.pop()?;
        self.forget(&popped);
        Some(popped)
    }

    /// Takes the first job that may have credit already.
    pub(super) fn pop_credited(&mut self) -> Option<Waiting> {
        let (ticket, tenant, class) = self.credited.pop_first()?;
        let popped = self.fair.pop_out_of_turn(&tenant, class, ticket)?;
        self.forget(&popped);
        Some(popped)
    }

    /// Removes a job that was taken out from the other tables.
    fn forget(&mut self, taken: &Waiting) {
        if let Some(due) = due(taken) {
            self.due.remove(&due);
        }
        if taken.item.may_have_credit {
            self.credited.remove(&(taken.ticket, taken.tenant.clone(), taken.class));
        }
    }

    /// How many jobs of a tenant may be handed out at once in this pool. Tenants with a limit of their own leave enough
    /// anyway.
    pub(super) fn share(&self, tenant: &TenantName, options: &Options) -> Option<u32> {
        let weight = options.weight(tenant);
        // Without configured weights, all tenants have the same one.
        let unbounded = |tenant: &TenantName| options.tenant(tenant).is_none_or(|own| own.max_in_flight.is_none());
        let heaviest = (!options.tenants.is_empty()).then(|| self.fair.heaviest(unbounded)).flatten();
        self.reserve.share(tenant, weight, heaviest.unwrap_or(weight), options.reserve)
    }

    /// The waiting job that this delivery repeats, if there is one. The caller must replace it.
    pub(super) fn replace(&mut self, head: &Head) -> Option<&mut Head> {
        if !head.delivery.redelivered {
            return None;
        }
        let (tenant, class) = (&head.key.tenant, head.lane.class);
        let (ticket, waiting) = self.fair.find_mut(tenant, class, |waiting| waiting.key == head.key)?;
        self.credited.insert((ticket, tenant.clone(), class));
        Some(waiting)
    }

    /// Notes that credit was given back.
    pub(super) fn credit_returned(&mut self) {
        self.returned += 1;
        self.allowance = (self.allowance + 1).min(self.credit.into());
    }

    /// Notes that a hand-out took no credit.
    pub(super) fn refund(&mut self) {
        self.allowance = (self.allowance + 1).min(self.credit.into());
    }

    /// Notes that the registry had no credit left. Only what was given back since the question (`returned`) may still
    /// be free.
    pub(super) fn exhausted(&mut self, returned: u64) {
        let since = i64::try_from(self.returned - returned.min(self.returned)).unwrap_or(i64::MAX);
        self.allowance = self.allowance.min(since);
    }

    /// Notes that a job was handed out to this target. A repeat took no credit.
    pub(super) fn placed(&mut self, to: &Target, repeat: bool) {
        if repeat {
            self.refund();
        }
        if let Target::Worker { worker, create: true } = to {
            self.session_workers.charge(worker);
        }
    }

    /// Takes out waiting jobs, at most `most`.
    pub(super) fn take(&mut self, most: usize) -> Vec<Waiting> {
        let mut taken: Vec<Waiting> = std::iter::from_fn(|| self.fair.pop()).take(most).collect();
        for waiting in &taken {
            self.forget(waiting);
        }
        let parked = self.parked.len().min(most - taken.len());
        taken.extend(self.parked.drain(..parked));
        taken
    }

    /// Takes out parked jobs whose protocol no worker speaks, at most `most`.
    pub(super) fn take_unspoken(&mut self, most: usize) -> Vec<Waiting> {
        let protocol = self.protocol;
        self.parked.extract_if(.., |waiting| waiting.item.protocol > protocol).take(most).collect()
    }

    pub(super) fn first_deadline(&self) -> Option<u64> {
        self.due.first().map(|due| due.at)
    }

    /// Takes out the jobs whose deadline has passed.
    pub(super) fn late(&mut self, now: u64) -> Vec<(Due, Head)> {
        let mut late = Vec::new();
        while self.due.first().is_some_and(|due| due.at <= now) {
            let Some(due) = self.due.pop_first() else { break };
            if let Some(head) = self.fair.remove(&due.tenant, due.class, due.ticket) {
                self.credited.remove(&(due.ticket, due.tenant.clone(), due.class));
                late.push((due, head));
            }
        }
        late
    }

    /// Whether the first job of a lane has waited longer than this.
    pub(super) fn holds_longer_than(&self, lane: &Lane, limit: Duration) -> bool {
        let waits = |head: &Head| head.seen.elapsed() > limit;
        self.fair.iter(&lane.tenant, lane.class).next().is_some_and(waits)
            || self.parked.iter().any(|waiting| waiting.item.lane == *lane && waits(&waiting.item))
    }

    /// Forgets the waiting jobs of a lane whose consumer is about to end.
    pub(super) fn give_up(&mut self, lane: &Lane) {
        self.fair.clear(&lane.tenant, lane.class);
        self.parked.retain(|waiting| waiting.item.lane != *lane);
        self.due.retain(|due| (&due.tenant, due.class) != (&lane.tenant, lane.class));
        self.credited.retain(|(_, tenant, class)| (tenant, *class) != (&lane.tenant, lane.class));
    }
}

fn due(waiting: &Waiting) -> Option<Due> {
    let at = waiting.item.deadline?;
    Some(Due { at, ticket: waiting.ticket, tenant: waiting.tenant.clone(), class: waiting.class })
}
