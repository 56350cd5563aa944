//! What a worker says of itself, with every heartbeat.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{JobId, Language, PoolName, SessionName, TenantName, WorkerId};

/// A worker's word about itself. It says everything each time, so that an emptied registry is whole after one of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Heartbeat {
    /// Version of the wire.
    #[serde(default = "crate::this_protocol")]
    pub protocol: u32,
    /// Who.
    pub worker: WorkerId,
    /// Whether it takes jobs.
    pub state: WorkerState,
    /// What it serves.
    pub pools: BTreeMap<PoolName, PoolCapacity>,
    /// What runs on it.
    pub running: Vec<RunningJob>,
    /// The sessions it holds.
    pub sessions: Vec<SessionHeld>,
    /// Its release.
    pub version: String,
}

/// Whether a worker takes jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkerState {
    /// It makes its first containers.
    Starting,
    /// It takes jobs.
    Ready,
    /// It finishes what it has and takes nothing new.
    Draining,
    /// Its container engine does not answer.
    Unhealthy,
    /// A word of a newer release. Nothing is handed to a worker in a state that the reader does not know.
    #[serde(other)]
    #[schemars(skip)]
    Unknown,
}

/// What a worker offers in one pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolCapacity {
    /// Jobs it runs at once.
    pub slots: u32,
    /// Of those, busy.
    pub busy: u32,
    /// Sessions it may hold.
    pub max_sessions: u32,
    /// Languages it runs. A reader leaves out those that it does not know: workers are upgraded before schedulers.
    #[serde(deserialize_with = "known_languages")]
    pub languages: Vec<Language>,
}

fn known_languages<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Language>, D::Error> {
    use serde::de::value::{Error, StrDeserializer};
    let names = Vec::<String>::deserialize(from)?;
    let read = |name: &String| Language::deserialize(StrDeserializer::<Error>::new(name)).ok();
    Ok(names.iter().filter_map(read).collect())
}

/// A job under way on a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunningJob {
    /// Whose.
    pub tenant: TenantName,
    /// Which.
    pub job: JobId,
    /// Which attempt.
    pub attempt: u32,
    /// The claim that started it.
    pub nonce: String,
    /// Its pool, whose credit it holds.
    pub pool: PoolName,
}

/// A session that a worker holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionHeld {
    /// Whose.
    pub tenant: TenantName,
    /// Which.
    pub session: SessionName,
    /// Its pool.
    pub pool: PoolName,
    /// Milliseconds until it expires if nothing runs in it.
    pub expires_in_ms: u64,
}
