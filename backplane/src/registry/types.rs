//! What the registry is asked and what it answers.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use thermae_schemas::{Heartbeat, IfGone, JobId, PoolName, SessionName, Status, TenantName, WorkerId};

use crate::record::Ended;

/// One life of the registry's memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Epoch(pub String);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A job's full name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobKey {
    /// Whose.
    pub tenant: TenantName,
    /// Which.
    pub job: JobId,
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.job)
    }
}

/// A worker's hold on an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Which attempt.
    pub attempt: u32,
    /// Who.
    pub owner: WorkerId,
    /// Name of the claim, random.
    pub nonce: String,
}

/// What is kept of a job that ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// For how long its whole outcome.
    pub outcome: Duration,
    /// For how long its tombstone, and so for how long it is known at all: longer than any copy of its message can live.
    pub record: Duration,
    /// Within which budget outcomes are kept whole. One that does not fit is only a tombstone from the beginning.
    pub budget: Budget,
}

/// Bytes of whole outcomes that are kept at once, at most.
///
/// It is counted in windows of an hour, of which half the budget each may be filled: what is kept for an hour or less is then
/// never more than the budget. What is kept for longer counts as often as there are hours in its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Of one tenant.
    pub tenant: u64,
    /// Of all tenants together.
    pub all: u64,
}

/// A window of a [`Budget`].
pub(crate) const WINDOW: Duration = Duration::from_secs(60 * 60);

/// What an outcome costs beyond its own bytes: its key.
pub(crate) const OUTCOME_OVERHEAD: u64 = 200;

impl Keep {
    /// What an outcome of that many bytes takes of the budget.
    pub(crate) fn cost(&self, bytes: usize) -> u64 {
        let windows = self.outcome().as_millis().div_ceil(WINDOW.as_millis()).max(1);
        (bytes as u64 + OUTCOME_OVERHEAD).saturating_mul(u64::try_from(windows).unwrap_or(u64::MAX))
    }

    /// For how long an outcome is kept: no longer than its record.
    pub(crate) fn outcome(&self) -> Duration {
        self.outcome.min(self.record)
    }
}

/// A job that a scheduler wants to hand out.
#[derive(Debug, Clone)]
pub struct Admit {
    /// Which.
    pub job: JobKey,
    /// Its pool, whose credit it takes.
    pub pool: PoolName,
    /// Jobs that the pool may have handed out at once.
    pub credit: u32,
    /// Jobs that the tenant may have handed out at once, over all pools.
    pub tenant_limit: Option<u32>,
    /// Jobs that the tenant may have handed out at once in this pool.
    pub tenant_share: Option<u32>,
    /// How often it may be started.
    pub max_attempts: u32,
    /// Where its events go.
    pub reply_key: Option<String>,
    /// The client's mark.
    pub correlation_id: Option<String>,
    /// Digest of the job without its id: tells a repeat from another job under the same id or idempotency key. Empty where it is
    /// not known: then it is held against nothing.
    pub digest: String,
    /// Its idempotency key.
    pub idempotency_key: Option<String>,
    /// Its session.
    pub session: Option<SessionAdmit>,
    /// What is known of the age of a submit message that may be a repeat (redelivered, or resent by its client). If it may be
    /// older than the epoch, a missing record does not prove that the job never ran. `None`: it can't be a repeat.
    pub repeat: Option<Repeat>,
    /// How long a job that was handed out holds its credit without having started.
    pub credit_ttl: Duration,
    /// How long the record is kept after its last change.
    pub ttl: Duration,
}

/// The age of a message that may be a repeat. Times are in milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeat {
    /// When it was submitted first, at the earliest: clocks differ, and a message that says no time may be old.
    pub earliest: u64,
    /// When it was submitted first, as the message says.
    pub said: Option<u64>,
    /// The first epoch that this fleet ever had, where that is known. While it lasts, no record was lost before, and only what
    /// says that it is older than the epoch itself is doubted: it was submitted to a fleet that lost everything.
    pub first_epoch: Option<Epoch>,
}

impl Repeat {
    /// Whether the message may be older than this epoch, which began at that time.
    pub fn may_precede(&self, epoch: &Epoch, began: u64) -> bool {
        match self.first_epoch.as_ref() == Some(epoch) {
            true => self.said.is_some_and(|said| said <= began),
            false => self.earliest <= began,
        }
    }
}

/// A session's side of an [`Admit`].
#[derive(Debug, Clone)]
pub struct SessionAdmit {
    /// Which.
    pub session: SessionName,
    /// What to do when it existed and is gone.
    pub if_gone: IfGone,
    /// The worker to place it on when it has none; `None` where no worker can take one.
    pub candidate: Option<WorkerId>,
}

/// Where a job was assigned to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Any worker of the pool.
    Pool,
    /// The worker that holds its session.
    Worker {
        /// Who.
        worker: WorkerId,
        /// Whether the session may be made there (it was placed just now).
        create: bool,
    },
}

/// Answer to [`Admit`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admitted {
    /// Publish it as this attempt.
    Assigned {
        /// Attempt.
        attempt: u32,
        /// Current epoch.
        epoch: Epoch,
        /// Where to.
        to: Target,
        /// Whether the record stood already, so that an earlier copy may exist.
        repeat: bool,
    },
    /// It has started: whoever runs it will answer. Acknowledge the submit message.
    UnderWay,
    /// It has started, as this attempt, and its worker was not heard of in time: hand a copy to the resolve queue.
    Lapsed(u32),
    /// It has ended: publish this to the reply key of *this* submit message.
    Terminal(Ended),
    /// Another job was submitted under this id.
    IdConflict,
    /// The pool's credit is used up; nothing was changed.
    NoCredit,
    /// The tenant has as much handed out as it may; nothing was changed.
    TenantBusy,
    /// An equal job with the same idempotency key came first: follow that one.
    DuplicateOf(JobId),
    /// Another job used the idempotency key.
    IdempotencyConflict(JobId),
    /// The session existed and is gone.
    SessionGone(Gone),
    /// The session has no worker yet and none can take it.
    NoSessionWorker,
}

/// Why a session is no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Gone {
    /// Idle for too long.
    Expired,
    /// Its worker or its sandbox died.
    Lost,
    /// Its tenant closed it; the name is free again.
    Closed,
}

/// A worker wants to start an attempt.
#[derive(Debug, Clone)]
pub struct StartRequest {
    /// Which job.
    pub job: JobKey,
    /// Its pool, whose credit it holds.
    pub pool: PoolName,
    /// The claim.
    pub claim: Claim,
    /// Epoch in which it was assigned (from the work message).
    pub epoch: Epoch,
    /// Whether no other copy of the work message can exist: neither redelivered nor marked `maybe_duplicate`.
    pub only_copy: bool,
    /// `max_attempts` and reply key of the work message, for a record that is missing.
    pub max_attempts: u32,
    /// As above.
    pub reply_key: Option<String>,
    /// As above.
    pub correlation_id: Option<String>,
    /// How long the worker may run it without renewing.
    pub lease: Duration,
    /// How long the record is kept after its last change.
    pub ttl: Duration,
}

/// A worker has an outcome.
#[derive(Debug, Clone)]
pub struct FinishRequest {
    /// Which job.
    pub job: JobKey,
    /// Its pool, whose credit it gives back.
    pub pool: PoolName,
    /// The claim.
    pub claim: Claim,
    /// The result message.
    pub outcome: Bytes,
    /// The status that it says.
    pub status: Status,
    /// How long it is kept.
    pub keep: Keep,
}

/// The store has an outcome whole that was recorded.
#[derive(Debug, Clone)]
pub struct ShelveRequest {
    /// Which job's.
    pub job: JobKey,
    /// Its digest: see [`crate::record::digest`].
    pub digest: String,
    /// Its bytes, which the budget gets back.
    pub bytes: usize,
    /// How it was kept when it was recorded.
    pub keep: Keep,
}

/// How full the registry is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes that Redis uses.
    pub memory: u64,
    /// Bytes that it may use; 0: as many as there are.
    pub memory_max: u64,
    /// Bytes of the budget that outcomes took which were recorded in this hour and in the one before.
    pub outcomes: u64,
}

/// A scheduler holds a copy of unknown fate.
#[derive(Debug, Clone)]
pub struct ResolveRequest {
    /// Which job.
    pub job: JobKey,
    /// Its pool.
    pub pool: PoolName,
    /// Attempt of the copy.
    pub attempt: u32,
    /// `max_attempts` of the copy, for a record that is missing.
    pub max_attempts: u32,
    /// The result message that is recorded if the job turns out lost.
    pub lost: Bytes,
    /// The result message that is recorded if the job was cancelled while it ran and can't go on.
    pub cancelled: Bytes,
    /// A missing record may yet be announced by its worker: hold this long after the epoch began.
    pub grace: Duration,
    /// How long what is recorded is kept.
    pub keep: Keep,
}

/// Somebody wants to end a job that has not started.
#[derive(Debug, Clone)]
pub struct SettleRequest {
    /// Which job.
    pub job: JobKey,
    /// Its pool, where it is known.
    pub pool: Option<PoolName>,
    /// The result message.
    pub outcome: Bytes,
    /// The status that it says.
    pub status: Status,
    /// Digest of the job that is meant, where the caller has it: see [`Admit::digest`].
    pub digest: Option<String>,
    /// Its client wants it ended: a job that runs gets no further attempt.
    pub cancel: bool,
    /// How long it is kept.
    pub keep: Keep,
}

/// Answer to a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beat {
    /// Current epoch.
    pub epoch: Epoch,
    /// Running jobs whose claim no longer stands: kill their sandboxes, their outcomes do not count.
    pub revoked: Vec<JobKey>,
}

/// A hint that something changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Credit of this pool was given back.
    Credit(PoolName),
    /// A worker came, left, or changed its capacity.
    Workers,
    /// The registry was emptied or replaced.
    Epoch,
}

/// How long a session is remembered after it was last heard of.
pub const SESSION_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// How long the record of a running job is kept after its worker's last word, and so the longest that any record may be kept.
pub const RUNNING_TTL: Duration = Duration::from_secs(8 * 24 * 60 * 60);

/// What a scheduler decides by, of a heartbeat: when it changes, that is news.
pub(crate) fn capacity_of(beat: &Heartbeat) -> String {
    let mut to = format!("{:?}", beat.state);
    for (name, pool) in &beat.pools {
        to.push_str(&format!(" {name} {} {}", pool.slots, pool.max_sessions));
    }
    to
}
