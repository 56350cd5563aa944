//! The outcome: what a job record ends with, and what the result message carries.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Artifact, ErrorCode, ErrorInfo, LeftOut, SessionName, WorkerId};

/// A value in several forms, by MIME type; binary forms are base64.
pub type MimeBundle = BTreeMap<String, Value>;

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The code ran to its end, or exited with 0.
    Succeeded,
    /// The code raised, exited with another status, or was ended by a signal.
    Failed,
    /// Wall clock or CPU time ran out.
    TimedOut,
    /// Memory ran out.
    OutOfMemory,
    /// More output than allowed.
    OutputLimit,
    /// The client cancelled it.
    Cancelled,
    /// It never ran; the error says why.
    Rejected,
    /// It may have run, wholly or in part; the error says why that is not known.
    Lost,
}

impl Status {
    /// All of them.
    pub const ALL: [Status; 8] = [
        Status::Succeeded,
        Status::Failed,
        Status::TimedOut,
        Status::OutOfMemory,
        Status::OutputLimit,
        Status::Cancelled,
        Status::Rejected,
        Status::Lost,
    ];

    /// The name as it stands on the wire and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::OutOfMemory => "out_of_memory",
            Self::OutputLimit => "output_limit",
            Self::Cancelled => "cancelled",
            Self::Rejected => "rejected",
            Self::Lost => "lost",
        }
    }
}

/// What became of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// Standard output; bytes that are not UTF-8 are replaced here and exact in `stdout_base64`.
    #[serde(default)]
    pub stdout: String,
    /// Standard error, likewise.
    #[serde(default)]
    pub stderr: String,
    /// The exact bytes of standard output, only where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_base64: Option<String>,
    /// The exact bytes of standard error, only where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_base64: Option<String>,
    /// Exit status of the code, where it ended by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Signal that ended the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Value of the code's last expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<MimeBundle>,
    /// What the code displayed, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub displays: Vec<MimeBundle>,
    /// Files that the code left in `/workspace/artifacts` (in a session, in `/session/artifacts` too): those that are new or changed,
    /// in the order of their paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// Their ids by their paths.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub artifact_map: BTreeMap<String, String>,
    /// What was left out of them: the first ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts_left_out: Vec<LeftOut>,
    /// How many more were left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub artifacts_left_out_more: u64,
    /// What went wrong, for every status but `succeeded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorInfo>,
    /// What it used.
    #[serde(default)]
    pub usage: Usage,
    /// The limits that held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsUsed>,
    /// The session it ran in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionState>,
    /// Where it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerId>,
    /// Set where another job with the same idempotency key was run in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate_of: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Outcome {
    /// An outcome with this status and nothing else.
    pub fn new(status: Status) -> Self {
        Self {
            status,
            stdout: String::new(),
            stderr: String::new(),
            stdout_base64: None,
            stderr_base64: None,
            exit_code: None,
            signal: None,
            value: None,
            displays: Vec::new(),
            artifacts: Vec::new(),
            artifact_map: BTreeMap::new(),
            artifacts_left_out: Vec::new(),
            artifacts_left_out_more: 0,
            error: None,
            usage: Usage::default(),
            limits: None,
            session: None,
            worker: None,
            duplicate_of: None,
        }
    }

    /// An outcome of a job that ended in this error.
    pub fn with_error(status: Status, error: ErrorInfo) -> Self {
        Self { error: Some(error), ..Self::new(status) }
    }

    /// The job never ran.
    pub fn rejected(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::with_error(Status::Rejected, ErrorInfo::new(code, message))
    }

    /// The job may have run.
    pub fn lost(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::with_error(Status::Lost, ErrorInfo::new(code, message))
    }
}

/// What a job used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// From the code's start to its end, in milliseconds.
    pub wall_ms: f64,
    /// CPU time, in milliseconds.
    pub cpu_ms: f64,
    /// Peak memory, in bytes.
    pub memory_bytes: u64,
    /// Standard output and standard error together, in bytes.
    pub output_bytes: u64,
    /// Tool calls made.
    pub tool_calls: u32,
}

/// The limits that held for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitsUsed {
    /// Wall clock, in milliseconds.
    pub wall_ms: u64,
    /// CPU time, in milliseconds.
    pub cpu_ms: u64,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub pids: u32,
    /// Output, in bytes.
    pub output_bytes: u64,
}

/// The session that a job ran in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionState {
    /// Its name.
    pub id: SessionName,
    /// Whether this job made it.
    pub fresh: bool,
    /// Whether it still lives.
    pub alive: bool,
    /// Files of an earlier session of this name, kept when its worker drained, that this job found in `/session`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub restored_files: u64,
}
