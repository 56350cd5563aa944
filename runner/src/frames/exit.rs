//! The last frame of a run: how it ended, and what it used.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[cfg(doc)]
use super::{Beside, Checkpoint, Input, Part};
use super::{Failure, Omissions};

/// How a run ended. The kernel's report decides. The job's own word only tells apart what the kernel reports alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum End {
    /// The program ran to its end, or exited with this status (`sys.exit`, `os._exit`).
    Exited {
        /// Exit status.
        code: i32,
    },
    /// The code raised an exception, could not be compiled, or broke the rules of its channel. See [`Exit::error`].
    Raised,
    /// A signal ended it.
    Signaled {
        /// Number of the signal.
        signal: i32,
    },
    /// The wall clock or the CPU time ran out.
    TimedOut {
        /// `wall` or `cpu`.
        limit: String,
        /// Whether the soft interrupt was enough (a session then keeps its state).
        soft: bool,
    },
    /// Memory ran out: the job exceeded its limit, the kernel's OOM killer struck, or the code did not handle a
    /// `MemoryError`.
    OutOfMemory,
    /// More output than allowed; what came before the cap was delivered.
    OutputLimit,
    /// A [`Kill`](super::Kind::Kill) ended it, or it did not end in time after an [`Interrupt`](super::Kind::Interrupt).
    Killed,
    /// An [`Interrupt`](super::Kind::Interrupt) ended it in time (a session then keeps its state).
    Interrupted,
    /// The named session doesn't exist in this container and was not to be made, or its process ended before the code
    /// started. For a [`Checkpoint`], it may also be busy.
    NoSession,
    /// An input file could not be written into the sandbox. The code did not start.
    BadFile {
        /// The file's path, as in [`Input::path`] or [`Part::path`].
        path: String,
        /// Why.
        reason: String,
    },
    /// The session runs programs in another language. The code did not start.
    OtherLanguage {
        /// Name of the session's language.
        language: String,
    },
    /// The runner could not start the run. The code did not start.
    NotStarted {
        /// Why.
        reason: String,
    },
    /// The session ended under a [`Beside`].
    SessionEnded,
    /// The command of a [`Beside`] could not be started, or its file operation failed. Or a [`Checkpoint`] is not
    /// complete.
    Failed(Failure),
}

/// An exception that ended the code, as its own process reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeError {
    /// Name of its type, such as `ValueError`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `str()` of the exception.
    pub message: String,
    /// Formatted traceback, with the job's own source lines.
    pub traceback: String,
}

/// What a run used, as counted by the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Time from the hand-over of the code to a sandbox until its end, in microseconds.
    pub wall_us: u64,
    /// The part of it that did not count against the wall clock, because the run waited for answers of its tool calls.
    /// In milliseconds.
    #[serde(default)]
    pub paused_ms: u64,
    /// User and system CPU time, in microseconds.
    pub cpu_us: u64,
    /// Peak memory of the whole sandbox, in bytes, as the limit counts it: what its processes and memory files take
    /// beyond what every process of that language begins with. Files in its storage don't count.
    pub memory_bytes: u64,
    /// Peak size of the files in the sandbox's storage, in bytes.
    #[serde(default)]
    pub files_bytes: u64,
    /// Bytes of standard output and standard error.
    pub output_bytes: u64,
}

/// Last frame of a run, runner to worker. Nothing of the run follows it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Exit {
    /// How it ended.
    pub end: End,
    /// The error, where the code raised one.
    #[serde(default)]
    pub error: Option<CodeError>,
    /// Value of the last expression as a MIME bundle (`text/plain` at least), where there is one. Of a file operation,
    /// its result, if it has one.
    #[serde(default)]
    pub value: Option<Box<RawValue>>,
    /// What the run used.
    pub usage: Usage,
    /// Phases in microseconds, for metrics: `acquire` (from the run's arrival to its hand-over to a sandbox), `start`
    /// (until the code starts), `run` (until it ends) and `collect` (the runner's work afterwards).
    #[serde(default)]
    pub phases: BTreeMap<String, u64>,
    /// Whether a sandbox was ready when the run arrived.
    #[serde(default)]
    pub warm: bool,
    /// Whether the session that it ran in lives on.
    #[serde(default)]
    pub session_lives: bool,
    /// The run's files that were not sent.
    #[serde(default)]
    pub left_out: Omissions,
    /// What whoever wrote the code should know about it, as its own process tells: at most [`MOST_NOTES`], each of at
    /// most [`LONGEST_NOTE`] bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Most notes of a run.
pub const MOST_NOTES: usize = 16;

/// Most bytes of a note.
pub const LONGEST_NOTE: usize = 512;

impl Exit {
    /// An exit that says only how the run ended.
    pub fn bare(end: End, session_lives: bool) -> Self {
        Self {
            end,
            error: None,
            value: None,
            usage: Usage::default(),
            phases: BTreeMap::new(),
            warm: false,
            session_lives,
            left_out: Omissions::default(),
            notes: Vec::new(),
        }
    }
}
