//! The outcome of a job: what its record ends with, and what the result message carries.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Artifact, ErrorCode, ErrorInfo, JsonText, LeftOut, SessionName, WorkerId};

/// A value in one or more forms, by MIME type. Binary forms are in base64.
pub type MimeBundle = BTreeMap<String, JsonText>;

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The code ran to its end, or exited with status 0.
    Succeeded,
    /// The code raised an exception, exited with another status, or was ended by a signal.
    Failed,
    /// The code reached its limit of wall-clock time or CPU time.
    TimedOut,
    /// The code reached its memory limit.
    OutOfMemory,
    /// The code wrote more output than allowed.
    OutputLimit,
    /// The client cancelled the job.
    Cancelled,
    /// The job never ran. The error says why.
    Rejected,
    /// The job may have run, in whole or in part. The error says why this is unknown.
    Lost,
}

impl Status {
    /// All statuses.
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

    /// The status's name on the wire and in metrics.
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

/// The outcome of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// How the job ended.
    pub status: Status,
    /// Standard output as text. Bytes that are not UTF-8 are replaced here; `stdout_base64` has the exact bytes.
    #[serde(default)]
    pub stdout: String,
    /// Standard error as text. Bytes that are not UTF-8 are replaced here; `stderr_base64` has the exact bytes.
    #[serde(default)]
    pub stderr: String,
    /// The exact bytes of standard output in base64, only if they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_base64: Option<String>,
    /// The exact bytes of standard error in base64, only if they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_base64: Option<String>,
    /// Exit status of the code, if it ended with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Number of the signal that ended the code, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Value of the code's last expression, in one or more forms by MIME type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<MimeBundle>,
    /// What the code displayed, in order. Each element is in one or more forms by MIME type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub displays: Vec<MimeBundle>,
    /// The new and changed files that the code left in `/workspace/artifacts`, then those in
    /// `/session/artifacts`, each in the order of their paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// The `path` of each artifact and its `id`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub artifact_map: BTreeMap<String, String>,
    /// What is not among the artifacts, and why: the first 64, and all files that the store did not accept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts_left_out: Vec<LeftOut>,
    /// How many more were left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub artifacts_left_out_more: u64,
    /// What went wrong. Every outcome except `succeeded` has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorInfo>,
    /// What whoever wrote the code should know about it, whether or not it succeeded: `You called X without await`, for
    /// example. Sentences for people and models.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What the job used.
    #[serde(default)]
    pub usage: Usage,
    /// The limits that applied to the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsUsed>,
    /// The session that the job ran in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionState>,
    /// Id of the worker that ran the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerId>,
    /// Id of the job with the same idempotency key that ran instead of this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate_of: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_nothing(n: &f64) -> bool {
    *n == 0.0
}

impl Outcome {
    /// An outcome with this status. All other fields have their defaults.
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
            notes: Vec::new(),
            usage: Usage::default(),
            limits: None,
            session: None,
            worker: None,
            duplicate_of: None,
        }
    }

    /// The outcome of a job that ended with this error.
    pub fn with_error(status: Status, error: ErrorInfo) -> Self {
        Self { error: Some(error), ..Self::new(status) }
    }

    /// The outcome of a job that never ran.
    pub fn rejected(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::with_error(Status::Rejected, ErrorInfo::new(code, message))
    }

    /// The outcome of a job that may have run.
    pub fn lost(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::with_error(Status::Lost, ErrorInfo::new(code, message))
    }
}

/// What a job used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Time from the code's start to its end by the wall clock, in milliseconds.
    pub wall_ms: f64,
    /// CPU time of all processes of the job, in milliseconds, whether somebody has waited for them or not.
    pub cpu_ms: f64,
    /// Peak memory of the job's processes and memory files, in bytes. It is counted as the limit counts it: without
    /// what the interpreter and preloaded modules take from the start, and without files.
    pub memory_bytes: u64,
    /// Peak size of the files in the sandbox, in bytes. The limit on disk space is about these.
    #[serde(default)]
    pub files_bytes: u64,
    /// Size of standard output and standard error together, in bytes.
    pub output_bytes: u64,
    /// Number of tool calls that passed the worker's check.
    pub tool_calls: u32,
    /// Time in which the code only waited for answers to tool calls and which did not count against the wall clock, in
    /// milliseconds. It is a part of `wall_ms`.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub paused_ms: f64,
}

/// The limits that applied to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitsUsed {
    /// Time by the wall clock, in milliseconds.
    pub wall_ms: u64,
    /// CPU time, in milliseconds.
    pub cpu_ms: u64,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Number of processes and threads.
    pub pids: u32,
    /// Size of standard output and standard error together, in bytes.
    pub output_bytes: u64,
    /// Time that the code can wait for answers to tool calls without it counting against the wall clock, in
    /// milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pause_ms: u64,
}

/// The session that a job ran in, after the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionState {
    /// Name of the session.
    pub id: SessionName,
    /// Whether this job made the session.
    pub fresh: bool,
    /// Whether the session still exists.
    pub alive: bool,
    /// Number of files and links that this job found in `/workspace` and `/session` from a checkpoint.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub restored_files: u64,
    /// Whether a checkpoint of the session's files as they were after this job is stored. It survives the death of the
    /// worker.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checkpointed: bool,
    /// When that checkpoint expires (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_expires_at: Option<String>,
    /// Number of sockets, FIFOs, devices and unreadable files that are not in that checkpoint.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub checkpoint_left_out: u64,
    /// Why no checkpoint was stored, although the session asks for one after each job. The checkpoint after an earlier
    /// job stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_error: Option<ErrorInfo>,
}

impl SessionState {
    /// The state of a session without a checkpoint.
    pub fn new(id: SessionName, fresh: bool, alive: bool, restored_files: u64) -> Self {
        Self {
            id,
            fresh,
            alive,
            restored_files,
            checkpointed: false,
            checkpoint_expires_at: None,
            checkpoint_left_out: 0,
            checkpoint_error: None,
        }
    }
}
