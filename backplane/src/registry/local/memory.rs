//! What the registry in one process holds, and how it forgets.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::time::Duration;

use thermae_schemas::{Heartbeat, JobId, PoolName, SessionName, TenantName, WorkerId};

use crate::record::{Millis, Moment, Record, State};
use crate::registry::types::WINDOW;
use crate::registry::{Budget, Epoch, Gone, JobKey, Keep, Notice};

/// A job's record, and what the registry needs beside it.
#[derive(Default)]
pub(super) struct Entry {
    pub(super) record: Option<Record>,
    /// How long it holds credit when it is handed out (again) and has not started.
    pub(super) credit_ttl: Millis,
    /// The pool whose credit it holds.
    pub(super) pool: Option<PoolName>,
    /// The session it runs in.
    pub(super) session: Option<SessionName>,
    pub(super) expires: Millis,
    /// When its outcome shrinks to a tombstone.
    pub(super) outcome_expires: Millis,
}

/// Bytes of outcomes that were recorded in a window.
#[derive(Default)]
pub(super) struct Spent {
    window: u64,
    all: u64,
    /// All of the window before.
    before: u64,
    tenants: HashMap<TenantName, u64>,
}

/// First user of an idempotency key.
pub(super) struct Key {
    pub(super) digest: String,
    pub(super) job: JobId,
    pub(super) expires: Millis,
}

/// A session, living or remembered.
pub(super) struct Session {
    pub(super) worker: WorkerId,
    /// The job that may make it, until its worker has announced it.
    pub(super) creator: Option<JobId>,
    /// Its worker has announced it.
    pub(super) announced: bool,
    pub(super) gone: Option<Gone>,
    pub(super) expires: Millis,
}

/// A worker, until it is buried.
pub(super) struct Worker {
    pub(super) beat: Heartbeat,
    pub(super) alive_until: Millis,
}

/// Leased ids with the moments their leases pass.
pub(super) type Leases = HashMap<JobKey, Millis>;

#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Forget {
    Job(JobKey),
    Outcome(JobKey),
    Key(TenantName, String),
    Session(TenantName, SessionName),
}

pub(super) struct Memory {
    pub(super) epoch: Epoch,
    pub(super) began: Millis,
    pub(super) announce_grace: Millis,
    pub(super) jobs: HashMap<JobKey, Entry>,
    pub(super) keys: HashMap<(TenantName, String), Key>,
    pub(super) pools: HashMap<PoolName, Leases>,
    pub(super) tenants: HashMap<TenantName, Leases>,
    pub(super) sessions: HashMap<(TenantName, SessionName), Session>,
    pub(super) workers: BTreeMap<WorkerId, Worker>,
    pub(super) leaders: HashMap<String, (String, Millis)>,
    spent: Spent,
    /// What to look at when; things whose expiry was put off are put back.
    forget: BinaryHeap<Reverse<(Millis, Forget)>>,
    news: Vec<Notice>,
}

/// A duration in the registry's unit.
pub(super) fn millis(duration: Duration) -> Millis {
    duration.as_millis() as Millis
}

impl Memory {
    pub(super) fn new(began: Millis, announce_grace: Millis) -> Self {
        Self {
            epoch: Epoch(uuid::Uuid::new_v4().simple().to_string()),
            began,
            announce_grace,
            jobs: HashMap::new(),
            keys: HashMap::new(),
            pools: HashMap::new(),
            tenants: HashMap::new(),
            sessions: HashMap::new(),
            workers: BTreeMap::new(),
            leaders: HashMap::new(),
            spent: Spent::default(),
            forget: BinaryHeap::new(),
            news: Vec::new(),
        }
    }

    pub(super) fn at(&self, now: Millis) -> Moment {
        Moment { now, epoch_age: now.saturating_sub(self.began) }
    }

    pub(super) fn tell(&mut self, notice: Notice) {
        if !self.news.contains(&notice) {
            self.news.push(notice);
        }
    }

    pub(super) fn take_news(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.news)
    }

    /// Looks at a thing again at this moment.
    pub(super) fn remember_until(&mut self, when: Millis, what: Forget) {
        self.forget.push(Reverse((when, what)));
    }

    /// Forgets what has expired.
    pub(super) fn expire(&mut self, now: Millis) {
        while self.forget.peek().is_some_and(|Reverse((when, _))| *when <= now) {
            let Some(Reverse((_, what))) = self.forget.pop() else { return };
            let until = match &what {
                Forget::Job(job) => self.jobs.get(job).map(|entry| entry.expires),
                Forget::Outcome(job) => self.jobs.get(job).map(|entry| entry.outcome_expires),
                Forget::Key(tenant, key) => self.keys.get(&(tenant.clone(), key.clone())).map(|key| key.expires),
                Forget::Session(tenant, name) => {
                    self.sessions.get(&(tenant.clone(), name.clone())).map(|session| session.expires)
                }
            };
            match (until, what) {
                (None, _) => {}
                (Some(until), what) if until > now => self.remember_until(until, what),
                (_, Forget::Job(job)) => drop(self.jobs.remove(&job)),
                (_, Forget::Outcome(job)) => self.shrink(&job),
                (_, Forget::Key(tenant, key)) => drop(self.keys.remove(&(tenant, key))),
                (_, Forget::Session(tenant, name)) => drop(self.sessions.remove(&(tenant, name))),
            }
        }
    }

    /// Forgets an outcome; its tombstone stays.
    fn shrink(&mut self, job: &JobKey) {
        if let Some(record) = self.jobs.get_mut(job).and_then(|entry| entry.record.as_mut())
            && let State::Terminal { outcome, .. } = &mut record.state
        {
            *outcome = None;
        }
    }

    /// A job has just ended: keeps its outcome, if it may be kept.
    pub(super) fn keep_outcome(&mut self, job: &JobKey, bytes: usize, keep: &Keep, now: Millis) {
        let expires = now + millis(keep.outcome());
        if expires <= now || !self.spend(&job.tenant, keep.cost(bytes), keep.budget, now) {
            return self.shrink(job);
        }
        if let Some(entry) = self.jobs.get_mut(job) {
            entry.outcome_expires = expires;
        }
        self.remember_until(expires, Forget::Outcome(job.clone()));
    }

    /// Takes a part of the budget. `false`, and nothing taken, where there is not so much left.
    fn spend(&mut self, tenant: &TenantName, cost: u64, budget: Budget, now: Millis) -> bool {
        self.turn_window(now);
        let mine = self.spent.tenants.entry(tenant.clone()).or_default();
        let fits = *mine + cost <= budget.tenant / 2 && self.spent.all + cost <= budget.all / 2;
        if fits {
            *mine += cost;
            self.spent.all += cost;
        }
        fits
    }

    fn turn_window(&mut self, now: Millis) {
        let window = now / millis(WINDOW);
        if self.spent.window != window {
            let before = if self.spent.window + 1 == window { self.spent.all } else { 0 };
            self.spent = Spent { window, before, ..Spent::default() };
        }
    }

    /// Gives a part of the budget back that was taken at that moment.
    pub(super) fn give_back(&mut self, tenant: &TenantName, cost: u64, at: Millis) {
        if self.spent.window == at / millis(WINDOW) {
            self.spent.all = self.spent.all.saturating_sub(cost);
            if let Some(mine) = self.spent.tenants.get_mut(tenant) {
                *mine = mine.saturating_sub(cost);
            }
        }
    }

    /// Bytes of the budget that were taken in this window and in the one before.
    pub(super) fn spent(&mut self, now: Millis) -> u64 {
        self.turn_window(now);
        self.spent.all + self.spent.before
    }

    /// Takes or renews the credit of a job in its pool and tenant.
    pub(super) fn take_credit(&mut self, pool: &PoolName, job: &JobKey, until: Millis) {
        self.pools.entry(pool.clone()).or_default().insert(job.clone(), until);
        self.tenants.entry(job.tenant.clone()).or_default().insert(job.clone(), until);
    }

    /// Gives it back.
    pub(super) fn give_credit(&mut self, pool: Option<&PoolName>, job: &JobKey) {
        if let Some(leases) = self.tenants.get_mut(&job.tenant) {
            leases.remove(job);
            if leases.is_empty() {
                self.tenants.remove(&job.tenant);
            }
        }
        let Some(pool) = pool else { return };
        if self.pools.get_mut(pool).is_some_and(|leases| leases.remove(job).is_some()) {
            self.tell(Notice::Credit(pool.clone()));
        }
    }

    /// Jobs that hold credit in a pool.
    pub(super) fn credit_used(&mut self, pool: &PoolName, now: Millis) -> u32 {
        self.pools.get_mut(pool).map_or(0, |leases| count(leases, now))
    }
}

/// Counts leases, passed ones left out (and forgotten).
pub(super) fn count(leases: &mut Leases, now: Millis) -> u32 {
    leases.retain(|_, until| *until > now);
    leases.len() as u32
}
