//! What one job may make its worker, its client and its tenant's neighbours hold.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thermae_service::units::ByteSize;

use crate::fit::LARGEST;

/// What a job may display, call and leave behind. A job can't ask for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Bounds {
    /// Things that a job may display. Further ones are left out, and a note in the outcome says how many.
    pub displays: u32,
    /// Bytes of JSON of what a job displays, all of it together. What does not fit is left out, and a note says so.
    pub display_bytes: ByteSize,
    /// Tool calls of a job; those that are refused count, too. Further ones raise `ToolError` (`tool_call_limit`).
    pub tool_calls: u32,
    /// Bytes of JSON of the arguments of a job's tool calls together. Further calls raise `ToolError` (`tool_call_limit`).
    pub tool_argument_bytes: ByteSize,
    /// Bytes of JSON of an outcome, 15 MiB at most. What was displayed last is cut first, then the value, then the output; notes stand in
    /// their places.
    pub outcome_bytes: ByteSize,
    /// Bytes of the jobs that wait for one session on this worker. Further jobs are rejected (`quota_exceeded`).
    pub session_queue_bytes: ByteSize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            displays: 1000,
            display_bytes: ByteSize::mib(8),
            tool_calls: 10_000,
            tool_argument_bytes: ByteSize::mib(64),
            outcome_bytes: ByteSize(LARGEST as u64),
            session_queue_bytes: ByteSize::mib(32),
        }
    }
}

impl Bounds {
    /// The most that an outcome may have, in bytes of JSON.
    pub(crate) fn outcome(&self) -> usize {
        usize::try_from(self.outcome_bytes.0).map_or(LARGEST, |n| n.min(LARGEST))
    }

    pub(super) fn validate(&self) -> Result<(), (&'static str, String)> {
        let (least, most) = (1 << 20, LARGEST as u64);
        if !(least..=most).contains(&self.outcome_bytes.0) {
            return Err(("outcome_bytes", format!("must be {} to {}", ByteSize(least), ByteSize(most))));
        }
        Ok(())
    }
}
