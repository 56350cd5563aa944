//! The registry: the fleet's shared memory of job records, workers, credit and sessions. Schedulers and workers use it,
//! clients never do. It is disposable: after one heartbeat of each worker, an emptied registry knows again what runs.
//!
//! Each call is one script in Redis. A job needs three calls: [`Registry::admit`], [`Registry::start`] and
//! [`Registry::finish`].

mod counts;
mod local;
mod types;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use thermae_schemas::{Heartbeat, JobId, SessionName, TenantName, WorkerId};
use tokio::sync::broadcast;

pub use crate::record::Claim;
use crate::record::{Address, Answer, EndUnstarted, Finish, Record, Resolve, Start, State, TakeOver, Whole};
pub use counts::{Count, CountRequest, Counted, MOST_COUNTS, moment};
pub use local::Local;
pub use types::{
    Admit, Admitted, Beat, Budget, EndUnstartedRequest, Epoch, FinishRequest, Gone, Holder, JobKey, Keep, Notice,
    RUNNING_TTL, Repeat, ResolveRequest, SESSION_TTL, SessionAdmit, ShelveRequest, StartRequest, Target, Usage,
    capacity_of,
};

/// A registry that several tasks share.
pub type SharedRegistry = Arc<dyn Registry>;

/// Errors of the registry.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection is lost. The last command may or may not have been carried out. Every command but a count may be
    /// repeated.
    #[error("the connection to the registry is down: {0}")]
    Disconnected(String),
    /// Redis is read-only, denies access, or would lose records (a `maxmemory-policy` other than `noeviction`).
    #[error("the registry can't be used: {0}")]
    Unfit(String),
    /// Redis has used all memory that it may use. It takes no new jobs, and those under way go on.
    #[error("the registry is full: Redis has reached its maxmemory")]
    Full,
    /// The registry holds data that this release can't read.
    #[error("the registry holds data that this release can't read: {0}")]
    Corrupt(String),
}

/// The fleet's shared memory. All calls but [`Registry::count`] are idempotent: after an error, a call may be repeated
/// unchanged.
#[async_trait]
pub trait Registry: Send + Sync + 'static {
    /// The current epoch. It changes when the registry was emptied or replaced, or when Redis was restarted (its key is
    /// missing, or Redis has another run id).
    async fn epoch(&self) -> Result<Epoch, Error>;

    /// Whether the registry can be used: it is reachable and writable, and its policy is `noeviction`.
    async fn check(&self) -> Result<(), Error>;

    /// Admits a submitted job: makes its record, takes credit, and chooses the worker for its session.
    async fn admit(&self, admit: &Admit) -> Result<Admitted, Error>;

    /// The fence: asks whether the code of this attempt may start.
    async fn start(&self, start: &StartRequest) -> Result<Answer<Start>, Error>;

    /// Records the outcome of a started attempt, and gives its credit back.
    async fn finish(&self, finish: &FinishRequest) -> Result<Answer<Finish>, Error>;

    /// Decides about a copy of a message whose fate is unknown.
    async fn resolve(&self, resolve: &ResolveRequest) -> Result<Answer<Resolve>, Error>;

    /// Ends a job that has not started: rejected, cancelled or past its deadline. Gives its credit back.
    async fn end_unstarted(&self, request: &EndUnstartedRequest) -> Result<Answer<EndUnstarted>, Error>;

    /// A client takes a run over: what is sent about it from now on goes to this address. If the call is repeated, the
    /// answer names no previous client any more.
    async fn take_over(&self, job: &JobKey, to: &Address) -> Result<TakeOver, Error>;

    /// Gives a started attempt up. Its lease ends now, so that [`Registry::resolve`] decides at once. `false` if the
    /// claim no longer stands.
    async fn abandon(&self, job: &JobKey, claim: &Claim) -> Result<bool, Error>;

    /// The store has a recorded outcome whole. The registry keeps only the digest, for as long as it would have kept
    /// the outcome. `false` if another outcome was recorded, or if this one is no longer kept.
    async fn shelve(&self, shelve: &ShelveRequest) -> Result<bool, Error>;

    /// Takes each of these counts once, in one step: all of them or none. After an error they may have been taken, so
    /// that a repeat may take them twice: whoever gets an error must not do what it counts.
    async fn count(&self, request: &CountRequest) -> Result<Counted, Error>;

    /// How much memory Redis uses, and how much of it is outcomes.
    async fn usage(&self) -> Result<Usage, Error>;

    /// A job's record. `None` if there is none.
    async fn lookup(&self, job: &JobKey) -> Result<Option<Record>, Error>;

    /// A worker's heartbeat. Keeps the worker alive for `ttl`, renews the leases of its running jobs, and restores what
    /// an emptied registry lacks (records of started jobs, credit, sessions).
    async fn heartbeat(&self, beat: &Heartbeat, ttl: Duration) -> Result<Beat, Error>;

    /// A worker ends on purpose. It is no longer alive, and the sessions that it still holds are lost. Its queues may
    /// still hold messages that were assigned at the last moment, so it counts as dead until it is buried.
    async fn leave(&self, worker: &WorkerId) -> Result<(), Error>;

    /// The last heartbeats of all living workers. Heartbeats that this release can't read are left out.
    async fn workers(&self) -> Result<Vec<Heartbeat>, Error>;

    /// The living workers that the last call of [`Registry::workers`] left out.
    fn unreadable_workers(&self) -> Vec<WorkerId> {
        Vec::new()
    }

    /// Workers that are dead or have left, and whose queues nobody has drained yet.
    async fn dead_workers(&self) -> Result<Vec<WorkerId>, Error>;

    /// Forgets a dead worker, whose queues are drained.
    async fn bury(&self, worker: &WorkerId) -> Result<(), Error>;

    /// A worker reports that one of its sessions has ended. `gone` decides the answer to later jobs of that session.
    ///
    /// `creator` is the job that made the session, or was to make it. If another job was to make the session that has
    /// the name now, nothing is changed: then it is a later one.
    async fn end_session(
        &self,
        tenant: &TenantName,
        session: &SessionName,
        worker: &WorkerId,
        creator: Option<&JobId>,
        gone: Gone,
    ) -> Result<(), Error>;

    /// Which worker holds a session. Changes nothing.
    async fn session_holder(&self, tenant: &TenantName, session: &SessionName) -> Result<Holder, Error>;

    /// Tries to lead, or to go on leading, for `ttl`. Correctness never depends on this.
    async fn lead(&self, shard: &str, who: &str, ttl: Duration) -> Result<bool, Error>;

    /// How many jobs hold credit of a pool.
    async fn credit_used(&self, pool: &thermae_schemas::PoolName) -> Result<u32, Error>;

    /// Hints that something changed. They may be late, doubled or lost, so a task that waits for one must also look at
    /// intervals.
    fn notices(&self) -> broadcast::Receiver<Notice>;
}

/// A record's whole outcome, if the registry itself still has it.
pub fn outcome_of(record: &Record) -> Option<&bytes::Bytes> {
    match &record.state {
        State::Terminal { outcome: Some(Whole::Here(outcome)), .. } => Some(outcome),
        _ => None,
    }
}

impl JobKey {
    /// The key of this tenant's job.
    pub fn new(tenant: TenantName, job: JobId) -> Self {
        Self { tenant, job }
    }
}
