//! The data of the in-process registry, and how it expires.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use ahash::HashMap;
use thermae_schemas::{Heartbeat, JobId, PoolName, SessionName, TenantName, WorkerId};

use super::counts::Counts;
use crate::record::{Millis, Moment, Record, State};
use crate::registry::types::WINDOW;
use crate::registry::{Budget, Epoch, Gone, JobKey, Keep, Notice};

/// A job's record, and what else the registry keeps for the job.
#[derive(Default)]
pub(super) struct Entry {
    pub(super) record: Option<Record>,
    /// How long the job holds credit without having started, each time it is handed out.
    pub(super) credit_ttl: Millis,
    /// The pool whose credit the job takes.
    pub(super) pool: Option<PoolName>,
    /// The session that the job runs in.
    pub(super) session: Option<SessionName>,
    pub(super) expires: Millis,
    /// When the outcome shrinks to a tombstone.
    pub(super) outcome_expires: Millis,
}

/// Budgeted bytes of the outcomes that were recorded in the current window.
#[derive(Default)]
pub(super) struct Spent {
    window: u64,
    all: u64,
    /// Bytes of all tenants in the window before.
    before: u64,
    tenants: HashMap<TenantName, u64>,
}

/// The first job with an idempotency key.
pub(super) struct Key {
    pub(super) digest: String,
    pub(super) job: JobId,
    pub(super) expires: Millis,
}

/// A session: one that lives, or one that is gone and still remembered.
pub(super) struct Session {
    pub(super) worker: WorkerId,
    /// The job that may create the session, until its worker has announced it. `None` if any job may.
    pub(super) creator: Option<JobId>,
    /// Its worker has announced it, so it exists.
    pub(super) announced: bool,
    pub(super) gone: Option<Gone>,
    pub(super) expires: Millis,
}

/// A worker that has not been buried.
pub(super) struct Worker {
    pub(super) beat: Heartbeat,
    pub(super) alive_until: Millis,
}

/// Jobs that hold credit, and the moment when each loses it.
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
    pub(super) counts: Counts,
    pub(super) leaders: HashMap<String, (String, Millis)>,
    spent: Spent,
    /// What may expire when. An entry whose expiry was put off is inserted again.
    forget: BinaryHeap<Reverse<(Millis, Forget)>>,
    news: Vec<Notice>,
}

/// Converts a duration.
pub(super) fn millis(duration: Duration) -> Millis {
    duration.as_millis() as Millis
}

impl Memory {
    pub(super) fn new(began: Millis, announce_grace: Millis) -> Self {
        Self {
            epoch: Epoch(uuid::Uuid::new_v4().simple().to_string()),
            began,
            announce_grace,
            jobs: HashMap::default(),
            keys: HashMap::default(),
            pools: HashMap::default(),
            tenants: HashMap::default(),
            sessions: HashMap::default(),
            workers: BTreeMap::new(),
            counts: Counts::default(),
            leaders: HashMap::default(),
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

    /// Checks at this moment whether `what` has expired.
    pub(super) fn remember_until(&mut self, when: Millis, what: Forget) {
        self.forget.push(Reverse((when, what)));
    }

    /// Forgets everything that has expired.
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

    /// Shrinks a job's outcome to its tombstone.
    fn shrink(&mut self, job: &JobKey) {
        if let Some(record) = self.jobs.get_mut(job).and_then(|entry| entry.record.as_mut())
            && let State::Terminal { outcome, .. } = &mut record.state
        {
            *outcome = None;
        }
    }

    /// Called when a job has just ended: keeps its outcome, if it may be kept.
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

    /// Takes `cost` from the budget. `false` if there isn't enough left: then nothing is taken.
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

    /// Gives the budget back what was taken at the moment `at`.
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

    /// Takes or renews a job's credit of its pool and its tenant.
    pub(super) fn take_credit(&mut self, pool: &PoolName, job: &JobKey, until: Millis) {
        self.pools.entry(pool.clone()).or_default().insert(job.clone(), until);
        self.tenants.entry(job.tenant.clone()).or_default().insert(job.clone(), until);
    }

    /// Gives a job's credit back.
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

    /// How many jobs hold credit of a pool.
    pub(super) fn credit_used(&mut self, pool: &PoolName, now: Millis) -> u32 {
        self.pools.get_mut(pool).map_or(0, |leases| count(leases, now))
    }
}

/// Counts the jobs that still hold credit, and forgets the others.
pub(super) fn count(leases: &mut Leases, now: Millis) -> u32 {
    leases.retain(|_, until| *until > now);
    leases.len() as u32
}
