//! Frames for what runs beside a session's program: commands and file operations.
//!
//! ```text
//! worker ── Beside ── Stdin… StdinEnd ── Signal, Interrupt, Kill ──▶ runner
//! worker ◀── Started ── Stdout, Stderr … ── Exit ── runner
//!        ◀──▶ Credit
//! ```
//!
//! Bytes flow by credit, in each direction and for each run by itself. At first, the sender may send
//! [`Beside::window`] bytes; [`super::Kind::Credit`] allows it more. So nobody has to keep more than that for a run,
//! and a run whose output nobody takes holds up no other one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ByteString, FileOp};

/// Runs a command or a file operation in a session's sandbox, beside the session's program. It neither waits for the
/// program nor holds it up, and several may run at once. It is a process of the sandbox like any other: it has the same
/// user, view, filter and limits. Its number is that of the frame, from the same numbers as those of [`super::Run`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beside {
    /// The session's name. The end is [`super::End::NoSession`] if it doesn't exist.
    pub session: String,
    /// What to run.
    pub work: Work,
    /// Wall-clock time, in milliseconds, lowered to the ceiling's. Then its process group is killed.
    pub wall_ms: u64,
    /// Most bytes of standard output and standard error together; `None` for any number.
    #[serde(default)]
    pub output_bytes: Option<u64>,
    /// How many bytes of output the runner may send at first, and how many bytes of input the worker may. At least 1,
    /// at most [`Beside::MAX_WINDOW`].
    pub window: u32,
}

impl Beside {
    /// The largest [`Beside::window`], in bytes.
    pub const MAX_WINDOW: u32 = 16 << 20;

    /// Most commands and file operations that may run beside one session's program at once.
    pub const MOST: usize = 64;
}

/// What runs beside a session's program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// A command. It ends when its own process does. Processes that it leaves live on until the session ends.
    Command(Command),
    /// A file operation. Its result is [`super::Exit::value`]; if it fails, the end is [`super::End::Failed`].
    File(FileOp),
}

/// A command. If it can't be started, the end is [`super::End::Failed`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// What to execute.
    pub program: Program,
    /// Working directory: absolute, or relative to `/workspace`, which is the default.
    #[serde(default)]
    pub cwd: Option<ByteString>,
    /// Environment variables added to the sandbox's own.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

/// What a command executes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// A program and its arguments. A program without a slash is looked up in `PATH`.
    Argv(Vec<String>),
    /// A command line for `bash -c`.
    Shell(String),
}

/// Why a command could not be started, or a file operation failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Name of the kernel's error, such as `ENOENT`.
    pub errno: String,
    /// The path in question.
    pub path: ByteString,
    /// What went wrong, in words.
    pub message: String,
}
