//! Bounds on what one job may make the worker, its client and other tenants hold.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thermae_runner::frames::Beside;
use thermae_service::units::ByteSize;

use crate::fit::LARGEST;

/// Bounds on what a job may display, call and leave behind. A job can't ask for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Bounds {
    /// Number of things that a job may display. Further ones are left out, and a note in the outcome says how many.
    pub displays: u32,
    /// Largest total size of what a job displays, in bytes of JSON. What does not fit is left out, and a note in the
    /// outcome says so.
    pub display_bytes: ByteSize,
    /// Number of tool calls that a job may make, including calls that are refused. Further calls raise `ToolError`
    /// (`tool_call_limit`).
    pub tool_calls: u32,
    /// Largest total size of the arguments of a job's tool calls, in bytes of JSON. Further calls raise `ToolError`
    /// (`tool_call_limit`).
    pub tool_argument_bytes: ByteSize,
    /// Largest size of an outcome, in bytes of JSON, from 1 MiB to 15 MiB. If an outcome is larger, what was displayed
    /// last is cut first, then the value, then the output. Notes replace what was cut.
    pub outcome_bytes: ByteSize,
    /// Largest total size of the jobs that wait for one session on this worker. Further jobs are rejected
    /// (`quota_exceeded`).
    pub session_queue_bytes: ByteSize,
    /// Number of commands and file operations that may run beside the programs of one session at once, from 1 to 64.
    /// Further ones wait.
    pub session_requests: u32,
    /// Number of files, directories and links that a checkpoint of a session may have. A session with more gets none
    /// (`checkpoint_too_large`). The pool's `disk` bounds its bytes.
    pub checkpoint_files: u32,
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
            session_requests: 8,
            checkpoint_files: 100_000,
        }
    }
}

impl Bounds {
    /// Largest size of an outcome, in bytes of JSON.
    pub(crate) fn outcome(&self) -> usize {
        usize::try_from(self.outcome_bytes.0).map_or(LARGEST, |n| n.min(LARGEST))
    }

    pub(super) fn validate(&self) -> Result<(), (&'static str, String)> {
        let (least, most) = (1 << 20, LARGEST as u64);
        if !(least..=most).contains(&self.outcome_bytes.0) {
            return Err(("outcome_bytes", format!("must be {} to {}", ByteSize(least), ByteSize(most))));
        }
        let most = Beside::MOST;
        if !(1..=most).contains(&(self.session_requests as usize)) {
            return Err(("session_requests", format!("must be 1 to {most}")));
        }
        if self.checkpoint_files == 0 {
            return Err(("checkpoint_files", "must not be zero".to_owned()));
        }
        Ok(())
    }
}
