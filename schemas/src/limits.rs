//! The limits that a job asks for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::optional::{nullable, some_integer};

/// Limits that a job asks for. Each is at most the pool's own (`limit_too_high`). A missing limit means the pool's
/// default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "LimitRequest", deny_unknown_fields, expecting = "an object of limits")]
#[schemars(transform = nullable)]
pub struct LimitRequest {
    /// Time by the wall clock, in milliseconds.
    #[serde(default, deserialize_with = "some_integer", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub wall_ms: Option<u64>,
    /// CPU time, in milliseconds.
    #[serde(default, deserialize_with = "some_integer", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub cpu_ms: Option<u64>,
    /// Memory, in bytes.
    #[serde(default, deserialize_with = "some_integer", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub memory_bytes: Option<u64>,
    /// Number of processes and threads.
    #[serde(default, deserialize_with = "some_integer", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub pids: Option<u32>,
    /// Size of standard output and standard error together, in bytes.
    #[serde(default, deserialize_with = "some_integer", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub output_bytes: Option<u64>,
    /// How long a tool call can wait for its answer, in milliseconds.
    #[serde(default, deserialize_with = "some_integer", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tool_ms: Option<u64>,
    /// How long the code can wait for answers to tool calls without it counting against `wall_ms`, in milliseconds.
    /// Only time in which every task of the code waits for such answers counts here. When it is used up, further
    /// waiting counts against `wall_ms`.
    #[serde(default, deserialize_with = "some_integer", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub pause_ms: Option<u64>,
}
