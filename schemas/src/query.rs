//! Questions that a client can ask about its own tenant.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::optional::{integer_or, nullable};
use crate::{JobId, PoolName, RunQuery, SessionName, WorkerId};

/// A question about the tenant. The event `sessions` or `run` answers it, to the `reply_to` of this message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Query", deny_unknown_fields)]
#[schemars(transform = nullable)]
pub struct Query {
    /// Version of the protocol; 1 if the field is missing.
    #[serde(default = "crate::first_protocol", deserialize_with = "integer_or::<1, _, _>")]
    pub protocol: u32,
    /// Id of the question. The answer carries it as `job`.
    pub id: JobId,
    /// What the client asks for.
    pub what: Asked,
}

impl Query {
    /// A question about the tenant's live sessions.
    pub fn sessions(id: JobId) -> Self {
        Self { protocol: crate::OLDEST, id, what: Asked::Sessions }
    }

    /// A question about a run.
    pub fn run(id: JobId, run: RunQuery) -> Self {
        Self { protocol: crate::OLDEST, id, what: Asked::Run(run) }
    }
}

/// What a client can ask for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    /// The live sessions of the tenant.
    Sessions,
    /// A run of the tenant.
    Run(RunQuery),
}

/// A live session, as its worker reported it in its last heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionInfo {
    /// Name of the session.
    pub id: SessionName,
    /// Pool of the session.
    pub pool: PoolName,
    /// Id of the worker that holds the session.
    pub worker: WorkerId,
    /// Milliseconds until the session is closed if it gets no job.
    pub expires_in_ms: u64,
}
