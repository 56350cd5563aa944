//! Heartbeats: what each worker regularly reports about itself.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{JobId, Language, PoolName, SessionName, TenantName, WorkerId};

/// A worker's report about itself. Each heartbeat reports everything, so that an emptied registry is complete again
/// after one heartbeat of every worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Heartbeat {
    /// Newest version of the protocol that the worker speaks. It gets no jobs of a newer version.
    #[serde(default = "crate::first_protocol")]
    pub protocol: u32,
    /// Id of the worker.
    pub worker: WorkerId,
    /// Whether the worker takes jobs.
    pub state: WorkerState,
    /// The pools that the worker serves, and what it offers in each.
    pub pools: BTreeMap<PoolName, PoolCapacity>,
    /// The jobs that run on the worker.
    pub running: Vec<RunningJob>,
    /// The sessions that the worker holds.
    pub sessions: Vec<SessionHeld>,
    /// Release of the worker.
    pub version: String,
}

/// Whether a worker takes jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkerState {
    /// The worker makes its first containers.
    Starting,
    /// The worker takes jobs.
    Ready,
    /// The worker finishes the jobs that it has, and takes no new ones.
    Draining,
    /// None of the worker's pools is ready, and at least one can't make containers.
    Unhealthy,
    /// A state that the reader does not know, because a newer release sent it. Nothing is handed to a worker in such a
    /// state.
    #[serde(other)]
    #[schemars(skip)]
    Unknown,
}

/// What a worker offers in one pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolCapacity {
    /// Number of jobs that can run at the same time; 0 while the pool is not ready.
    pub slots: u32,
    /// Number of slots that are in use.
    pub busy: u32,
    /// Number of sessions that the worker may hold in this pool.
    pub max_sessions: u32,
    /// Languages that the pool runs.
    pub languages: Vec<Language>,
}

/// A job that runs on a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunningJob {
    /// Tenant of the job.
    pub tenant: TenantName,
    /// Id of the job.
    pub job: JobId,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Nonce of the claim with which the worker started the attempt.
    pub nonce: String,
    /// Pool of the job. The job counts against the pool's credit, unless it is paused.
    pub pool: PoolName,
    /// Whether the job is paused: its code waits for answers to tool calls, and it holds no slot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

/// A session that a worker holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionHeld {
    /// Tenant of the session.
    pub tenant: TenantName,
    /// Name of the session.
    pub session: SessionName,
    /// Pool of the session.
    pub pool: PoolName,
    /// Milliseconds until the session is closed if nothing runs in it.
    pub expires_in_ms: u64,
    /// Whether it could make room for another session of its tenant.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub evictable: bool,
}
