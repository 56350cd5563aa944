//! Shared memory of the fleet: job records, workers, credit and sessions. Small, fenced and disposable: an emptied registry is
//! whole again after one heartbeat of every worker.
//!
//! Every compare-and-set is one script in Redis. A job costs three of them: [`Registry::admit`], [`Registry::start`] and
//! [`Registry::finish`].

mod local;
mod redis;
mod types;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use thermae_schemas::{Heartbeat, JobId, SessionName, TenantName, WorkerId};
use tokio::sync::broadcast;

pub use self::redis::{Redis, RedisOptions};
use crate::record::{Finish, Record, Resolve, Settle, Start, State, Whole};
pub use local::Local;
pub use types::{
    Admit, Admitted, Beat, Budget, Claim, Epoch, FinishRequest, Gone, JobKey, Keep, Notice, RUNNING_TTL, Repeat,
    ResolveRequest, SESSION_TTL, SessionAdmit, SettleRequest, ShelveRequest, StartRequest, Target, Usage,
};

/// Shared handle of a registry.
pub type SharedRegistry = Arc<dyn Registry>;

/// What can go wrong with the registry.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection is down. Whether the last command was carried out is not known; every command may be repeated.
    #[error("the connection to the registry is down: {0}")]
    Disconnected(String),
    /// Redis is set up in a way that would lose records (`maxmemory-policy` other than `noeviction`), is read-only, or denies access.
    #[error("the registry can't be used: {0}")]
    Unfit(String),
    /// Redis has used the memory that it may use: it takes no new jobs. Those under way go on.
    #[error("the registry is full: Redis has used its maxmemory")]
    Full,
    /// A record that this release can't read.
    #[error("the registry holds what this release can't read: {0}")]
    Corrupt(String),
}

/// Shared memory of the fleet. Every call is idempotent: after an error it may be made again, unchanged.
#[async_trait]
pub trait Registry: Send + Sync + 'static {
    /// The current epoch. It changes when the registry was emptied or replaced (its key is absent, or Redis's run id changed).
    async fn epoch(&self) -> Result<Epoch, Error>;

    /// Whether it can be used: reachable, writable, `noeviction`.
    async fn check(&self) -> Result<(), Error>;

    /// Takes a submitted job on: makes its record, takes credit, places its session.
    async fn admit(&self, admit: &Admit) -> Result<Admitted, Error>;

    /// The fence before the first instruction of the code.
    async fn start(&self, start: &StartRequest) -> Result<Start, Error>;

    /// Records the outcome of a started attempt, and gives its credit back.
    async fn finish(&self, finish: &FinishRequest) -> Result<Finish, Error>;

    /// Decides about a copy of unknown fate.
    async fn resolve(&self, resolve: &ResolveRequest) -> Result<Resolve, Error>;

    /// Ends a job that has not started: rejected, cancelled, past its deadline. Gives its credit back.
    async fn settle(&self, settle: &SettleRequest) -> Result<Settle, Error>;

    /// Gives a started attempt up: its lease ends now, so that `resolve` decides at once. `false` where the claim no longer stands.
    async fn abandon(&self, job: &JobKey, claim: &Claim) -> Result<bool, Error>;

    /// The store has a recorded outcome whole: the registry keeps only its digest, for as long as it would have kept
    /// the outcome. `false` where another outcome was recorded, or its time is over.
    async fn shelve(&self, shelve: &ShelveRequest) -> Result<bool, Error>;

    /// How full it is.
    async fn usage(&self) -> Result<Usage, Error>;

    /// A job's record.
    async fn lookup(&self, job: &JobKey) -> Result<Option<Record>, Error>;

    /// A worker's word about itself: keeps it alive for `ttl`, renews the leases of its running jobs, and writes anew what an
    /// emptied registry lacks (records as started, credit, sessions).
    async fn heartbeat(&self, beat: &Heartbeat, ttl: Duration) -> Result<Beat, Error>;

    /// A worker that ends by itself: no longer alive from now on; the sessions it still holds are lost. Its queues may
    /// yet hold what was assigned at the last moment, so it is among the dead ones until it is buried.
    async fn leave(&self, worker: &WorkerId) -> Result<(), Error>;

    /// The workers that are alive, by their last heartbeats.
    /// Those whose words this release can't read are left out.
    async fn workers(&self) -> Result<Vec<Heartbeat>, Error>;

    /// The living workers that the last look at [`Registry::workers`] left out.
    fn unreadable_workers(&self) -> Vec<WorkerId> {
        Vec::new()
    }

    /// Workers that were alive once, are not (dead, or left), and whose queues nobody has drained yet.
    async fn dead_workers(&self) -> Result<Vec<WorkerId>, Error>;

    /// A dead worker's queues are drained: forget it.
    async fn bury(&self, worker: &WorkerId) -> Result<(), Error>;

    /// A worker says that a session of its ended; what is remembered of it decides what later jobs of it are told.
    async fn end_session(
        &self,
        tenant: &TenantName,
        session: &SessionName,
        worker: &WorkerId,
        gone: Gone,
    ) -> Result<(), Error>;

    /// Tries to lead (or to go on leading) for `ttl`. Correctness never depends on it.
    async fn lead(&self, shard: &str, who: &str, ttl: Duration) -> Result<bool, Error>;

    /// Jobs in a pool's credit set, expired ones left out.
    async fn credit_used(&self, pool: &thermae_schemas::PoolName) -> Result<u32, Error>;

    /// News, as a hint: they may be late, doubled or lost, so whoever waits for one also looks by itself now and then.
    fn notices(&self) -> broadcast::Receiver<Notice>;
}

/// A record's whole outcome, while the registry keeps it itself.
pub fn outcome_of(record: &Record) -> Option<&bytes::Bytes> {
    match &record.state {
        State::Terminal { outcome: Some(Whole::Here(outcome)), .. } => Some(outcome),
        _ => None,
    }
}

/// The name that a job's record has.
impl JobKey {
    /// Of this tenant, this job.
    pub fn new(tenant: TenantName, job: JobId) -> Self {
        Self { tenant, job }
    }
}
