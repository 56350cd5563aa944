//! Requests to the registry, and its answers.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use thermae_schemas::{Heartbeat, IfGone, JobId, PoolName, SessionName, Status, TenantName, WorkerId};

use crate::record::{Claim, Ended};

/// Id of an epoch: one life of the registry's data.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Epoch(pub String);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Key of a job's record.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobKey {
    /// The job's tenant.
    pub tenant: TenantName,
    /// The job's id, which is unique for its tenant.
    pub job: JobId,
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.job)
    }
}

/// How long a job that has ended is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// How long its whole outcome is kept.
    pub outcome: Duration,
    /// How long its tombstone is kept. This must be longer than any copy of its message can exist.
    pub record: Duration,
    /// Limits the bytes of whole outcomes. An outcome that doesn't fit shrinks to a tombstone at once.
    pub budget: Budget,
}

/// Limit on the bytes of whole outcomes that are kept at once.
///
/// Bytes are counted in windows of an hour, and each window may use half of the budget. So outcomes that are kept for
/// an hour or less never exceed the budget. An outcome that is kept for longer counts once for each hour that it is
/// kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Bytes for one tenant.
    pub tenant: u64,
    /// Bytes for all tenants together.
    pub all: u64,
}

/// Length of a window of a [`Budget`].
pub(crate) const WINDOW: Duration = Duration::from_secs(60 * 60);

/// Bytes that an outcome costs in addition to its own, for its key.
pub(crate) const OUTCOME_OVERHEAD: u64 = 200;

impl Keep {
    /// What an outcome of `bytes` bytes costs of the budget.
    pub fn cost(&self, bytes: usize) -> u64 {
        let windows = self.outcome().as_millis().div_ceil(WINDOW.as_millis()).max(1);
        (bytes as u64 + OUTCOME_OVERHEAD).saturating_mul(u64::try_from(windows).unwrap_or(u64::MAX))
    }

    /// How long an outcome is kept: at most as long as its record.
    pub fn outcome(&self) -> Duration {
        self.outcome.min(self.record)
    }
}

/// A scheduler's request to admit a job.
#[derive(Debug, Clone)]
pub struct Admit {
    /// The job's key.
    pub job: JobKey,
    /// Its pool. The job takes a part of that pool's credit.
    pub pool: PoolName,
    /// The pool's credit: how many of its jobs may be handed out at once.
    pub credit: u32,
    /// How many jobs of the tenant may be handed out at once, in all pools together. `None` means without a limit.
    pub tenant_limit: Option<u32>,
    /// How many jobs of the tenant may be handed out at once in this pool. `None` means without a limit.
    pub tenant_share: Option<u32>,
    /// How often the code may be started.
    pub max_attempts: u32,
    /// Routing key for the job's events.
    pub reply_key: Option<String>,
    /// The client's own mark, which the result repeats.
    pub correlation_id: Option<String>,
    /// Digest of the job without its id. It tells a repeat from another job with the same id or idempotency key. If it
    /// is empty, it isn't known, and a job with the same id counts as a repeat.
    pub digest: String,
    /// The job's idempotency key.
    pub idempotency_key: Option<String>,
    /// The job's session.
    pub session: Option<SessionAdmit>,
    /// The age of the submit message, if it may be a repeat (redelivered, or sent again by its client). If the message
    /// may be older than the epoch, a missing record doesn't prove that the job never ran. `None` if it can't be a
    /// repeat.
    pub repeat: Option<Repeat>,
    /// How long a job that was handed out holds its credit without starting.
    pub credit_ttl: Duration,
    /// How long the record is kept after its last change.
    pub ttl: Duration,
}

/// The age of a message that may be a repeat. All times are in milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeat {
    /// The earliest time at which the job can have been submitted first. Clocks differ, and a message without a time
    /// may be old.
    pub earliest: u64,
    /// The time of the first submit, if the message says one.
    pub said: Option<u64>,
    /// The first epoch that this fleet ever had, if it is known. While it lasts, no record has been lost. Then a
    /// message is doubted only if it says itself that it is older than the epoch: it was submitted to a fleet that lost
    /// everything.
    pub first_epoch: Option<Epoch>,
}

impl Repeat {
    /// Whether the message may be older than this epoch, which began at `began`.
    pub fn may_precede(&self, epoch: &Epoch, began: u64) -> bool {
        match self.first_epoch.as_ref() == Some(epoch) {
            true => self.said.is_some_and(|said| said <= began),
            false => self.earliest <= began,
        }
    }
}

/// The session of an [`Admit`].
#[derive(Debug, Clone)]
pub struct SessionAdmit {
    /// The session's name.
    pub session: SessionName,
    /// What to do if the session existed and is gone.
    pub if_gone: IfGone,
    /// The worker to place the session on if it has none. `None` if no worker can take it.
    pub candidate: Option<WorkerId>,
}

/// Where a job is assigned to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Any worker of the pool.
    Pool,
    /// The worker that holds its session.
    Worker {
        /// The worker that holds the session.
        worker: WorkerId,
        /// Whether the worker may create the session, because it was placed there just now.
        create: bool,
    },
}

/// Answer to [`Admit`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admitted {
    /// Publish the job as this attempt.
    Assigned {
        /// Number of the attempt.
        attempt: u32,
        /// The current epoch.
        epoch: Epoch,
        /// Where to publish it.
        to: Target,
        /// Whether the record existed already, so that an earlier copy may exist.
        repeat: bool,
    },
    /// The job has started, and its worker will answer. Acknowledge the submit message.
    UnderWay,
    /// The job has started, as this attempt, and its lease has passed. Hand a copy to the queue `resolve`.
    Lapsed(u32),
    /// The job has ended. Publish this to the reply key of *this* submit message.
    Terminal(Ended),
    /// Another job has this id.
    IdConflict,
    /// The pool's credit is used up. Nothing was changed.
    NoCredit,
    /// The tenant's limit is reached. Nothing was changed.
    TenantBusy,
    /// An equal job with the same idempotency key came first. Its outcome is the answer for this one, too.
    DuplicateOf(JobId),
    /// Another job has used the idempotency key.
    IdempotencyConflict(JobId),
    /// The session existed and is gone.
    SessionGone(Gone),
    /// The session has no worker yet, and none can take it.
    NoSessionWorker,
}

/// Why a session is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Gone {
    /// It was idle for too long.
    Expired,
    /// It made room for another session of its tenant.
    Evicted,
    /// Its worker or its sandbox died.
    Lost,
    /// Its tenant closed it. The name is free again.
    Closed,
}

/// Which worker holds a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// This living worker holds the session, or will make it for the job that was placed there.
    Worker(WorkerId),
    /// The session existed and is gone.
    Gone(Gone),
    /// There is no such session.
    Nobody,
    /// The session isn't known, but the registry was emptied a moment ago, so that its worker may still announce it.
    Unsettled,
}

/// A worker's request to start an attempt.
#[derive(Debug, Clone)]
pub struct StartRequest {
    /// The job's key.
    pub job: JobKey,
    /// Its pool, whose credit the job holds.
    pub pool: PoolName,
    /// The worker's claim.
    pub claim: Claim,
    /// Epoch in which the job was assigned, from the work message.
    pub epoch: Epoch,
    /// No other copy of the work message can exist: it is neither redelivered nor marked `maybe_duplicate`.
    pub only_copy: bool,
    /// From the work message, for a record that is missing: how often the code may be started.
    pub max_attempts: u32,
    /// From the work message, for a record that is missing: the routing key for the job's events.
    pub reply_key: Option<String>,
    /// From the work message, for a record that is missing: the client's own mark.
    pub correlation_id: Option<String>,
    /// How long the worker may run the job without renewing the lease.
    pub lease: Duration,
    /// How long the record is kept after its last change.
    pub ttl: Duration,
}

/// A worker's request to record an outcome.
#[derive(Debug, Clone)]
pub struct FinishRequest {
    /// The job's key.
    pub job: JobKey,
    /// Its pool, whose credit the job gives back.
    pub pool: PoolName,
    /// The worker's claim.
    pub claim: Claim,
    /// The result message.
    pub outcome: Bytes,
    /// The status in the result message.
    pub status: Status,
    /// How long the outcome and the record are kept.
    pub keep: Keep,
}

/// A worker's report that the store has a recorded outcome whole.
#[derive(Debug, Clone)]
pub struct ShelveRequest {
    /// Key of the job that has this outcome.
    pub job: JobKey,
    /// Digest of the outcome (see [`crate::record::digest`]).
    pub digest: String,
    /// Size of the outcome in bytes, which the budget gets back.
    pub bytes: usize,
    /// How long the outcome was to be kept when it was recorded.
    pub keep: Keep,
}

/// How much memory the registry uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes that Redis uses. 0 for the in-process registry.
    pub memory: u64,
    /// Bytes that Redis may use (`maxmemory`). 0 means without a limit.
    pub memory_max: u64,
    /// Budgeted bytes of the outcomes that were recorded in this window and in the one before.
    pub outcomes: u64,
}

/// A scheduler's request to decide about a copy of unknown fate.
#[derive(Debug, Clone)]
pub struct ResolveRequest {
    /// The job's key.
    pub job: JobKey,
    /// The job's pool.
    pub pool: PoolName,
    /// Number of the copy's attempt.
    pub attempt: u32,
    /// `max_attempts` of the copy, for a record that is missing.
    pub max_attempts: u32,
    /// The result message to record if the job is lost.
    pub lost: Bytes,
    /// The result message to record if the job was cancelled while it ran and can't go on.
    pub cancelled: Bytes,
    /// If the record is missing, its worker may still announce it. The copy is held until the epoch is this old.
    pub grace: Duration,
    /// How long the outcome and the record are kept.
    pub keep: Keep,
}

/// A scheduler's request to end a job that has not started.
#[derive(Debug, Clone)]
pub struct EndUnstartedRequest {
    /// The job's key.
    pub job: JobKey,
    /// The job's pool, if the caller knows it.
    pub pool: Option<PoolName>,
    /// The result message.
    pub outcome: Bytes,
    /// The status in the result message.
    pub status: Status,
    /// Digest of the job that is meant, if the caller knows it (see [`Admit::digest`]).
    pub digest: Option<String>,
    /// The client wants the job to end: if it runs, it gets no further attempt.
    pub cancel: bool,
    /// How long the outcome and the record are kept.
    pub keep: Keep,
}

/// Answer to a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beat {
    /// The current epoch.
    pub epoch: Epoch,
    /// Running jobs whose claim no longer stands. The worker must kill their sandboxes, and their outcomes don't count.
    pub revoked: Vec<JobKey>,
}

/// A hint that something changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Credit of this pool was given back.
    Credit(PoolName),
    /// A worker came, left or changed its capacity.
    Workers,
    /// A new epoch has begun.
    Epoch,
}

/// How long a session is remembered after it was last used or announced.
pub const SESSION_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// How long the record of a running job is kept after its worker's last heartbeat. No record may be kept longer than
/// this.
pub const RUNNING_TTL: Duration = Duration::from_secs(8 * 24 * 60 * 60);

/// The parts of a heartbeat that a scheduler's decisions depend on. When they change, the registry sends a notice.
pub fn capacity_of(beat: &Heartbeat) -> String {
    let mut to = format!("{:?}", beat.state);
    for (name, pool) in &beat.pools {
        to.push_str(&format!(" {name} {} {}", pool.slots, pool.max_sessions));
    }
    to
}
