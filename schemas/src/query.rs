//! What a client may ask about what is its tenant's own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{JobId, PoolName, SessionName, WorkerId};

/// Asks for the tenant's sessions; the event `sessions` answers, to the message's reply key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// Version of the wire.
    #[serde(default = "crate::first_protocol")]
    pub protocol: u32,
    /// A name for the question, which the answer carries as its `job`.
    pub id: JobId,
    /// What is asked for.
    pub what: Asked,
}

impl Query {
    /// A question for this tenant's sessions.
    pub fn sessions(id: JobId) -> Self {
        Self { protocol: crate::PROTOCOL, id, what: Asked::Sessions }
    }
}

/// What can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    /// The tenant's sessions that live.
    Sessions,
}

/// A session that lives, as its worker last said: a heartbeat ago at most.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionInfo {
    /// Its name.
    pub id: SessionName,
    /// Its pool.
    pub pool: PoolName,
    /// Who holds it.
    pub worker: WorkerId,
    /// Milliseconds until it is closed, if no job of it comes.
    pub expires_in_ms: u64,
}
