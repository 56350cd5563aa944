//! Requests as the runner reads them, and their ends as clients do.

use thermae_runner::frames::{self, ByteString, Command, End, Exit, Program, Work};
use thermae_schemas::{ErrorCode, ErrorInfo, Exec, FileOp, PathText, RequestDone, RequestEnd, WriteMode};

fn path(text: PathText) -> ByteString {
    ByteString(text.0)
}

/// What the runner is to do.
pub(super) fn command(exec: Exec) -> Work {
    let program = match exec.shell {
        Some(line) => Program::Shell(line),
        None => Program::Argv(exec.argv),
    };
    Work::Command(Command { program, cwd: exec.cwd.map(path), env: exec.env })
}

/// What the runner is to do.
pub(super) fn file(op: FileOp) -> Work {
    use frames::FileOp as To;
    Work::File(match op {
        FileOp::Stat { path: at, link } => To::Stat { path: path(at), link },
        FileOp::List { path: at, depth, most } => To::List { path: path(at), depth, most },
        FileOp::Read { path: at, offset, length } => To::Read { path: path(at), offset, length },
        FileOp::Write { path: at, mode, permissions } => {
            let mode = match mode {
                WriteMode::Truncate => frames::WriteMode::Truncate,
                WriteMode::Append => frames::WriteMode::Append,
                WriteMode::CreateNew => frames::WriteMode::CreateNew,
                WriteMode::At(offset) => frames::WriteMode::At(offset),
                WriteMode::Extend(end) => frames::WriteMode::Extend(end),
            };
            To::Write { path: path(at), mode, permissions }
        }
        FileOp::MakeDir { path: at, parents } => To::MakeDir { path: path(at), parents },
        FileOp::Move { from, to } => To::Move { from: path(from), to: path(to) },
        FileOp::Remove { path: at, recursive } => To::Remove { path: path(at), recursive },
        FileOp::Glob { path: at, pattern, most } => To::Glob { path: path(at), pattern, most },
        FileOp::Grep { path: at, pattern, glob, ignore_case, most } => {
            To::Grep { path: path(at), pattern, glob, ignore_case, most }
        }
        FileOp::Digest { path: at } => To::Digest { path: path(at) },
        FileOp::RealPath { path: at } => To::RealPath { path: path(at) },
    })
}

/// Why the worker ends a request.
#[derive(Debug, Clone)]
pub(super) enum Early {
    /// The client cancelled it.
    Cancel,
    /// It took too long.
    TimedOut,
    /// For this reason.
    Error(ErrorInfo),
}

impl Early {
    /// An error with this code.
    pub(super) fn error(code: ErrorCode, why: impl Into<String>) -> Self {
        Self::Error(ErrorInfo::new(code, why))
    }

    pub(super) fn end(self) -> RequestEnd {
        match self {
            Self::Cancel => RequestEnd::Cancelled {},
            Self::TimedOut => RequestEnd::TimedOut {},
            Self::Error(error) => RequestEnd::Error { error },
        }
    }
}

/// How a request ended that the runner took.
pub(super) fn ended(exit: Exit, early: Option<Early>) -> RequestDone {
    let error = |code, why: String| RequestEnd::Error { error: ErrorInfo::new(code, why) };
    let lost = || error(ErrorCode::SessionLost, "The session ended before the request did.".to_owned());
    let end = match (exit.end, early) {
        // What was sent is not what the command wrote, however it ended.
        (_, Some(early @ (Early::Error(_) | Early::TimedOut))) => early.end(),
        (End::Killed, Some(early)) => early.end(),
        (End::Killed, None) => error(ErrorCode::Internal, "the runner killed it without being asked to".into()),
        (End::Exited { code }, _) => RequestEnd::Exited { code },
        (End::Signaled { signal }, _) => RequestEnd::Signaled { signal },
        (End::TimedOut { .. }, _) => RequestEnd::TimedOut {},
        (End::OutOfMemory, _) => RequestEnd::OutOfMemory {},
        (End::Failed(failure), _) => {
            RequestEnd::Failed { errno: failure.errno, path: PathText(failure.path.0), message: failure.message }
        }
        (End::NoSession | End::SessionEnded, _) => lost(),
        (End::NotStarted { reason }, _) => {
            error(ErrorCode::SandboxFailed, format!("It could not be started in the session's sandbox: {reason}"))
        }
        (End::Raised, _) => {
            let why = exit.error.map(|error| error.message).unwrap_or_default();
            error(ErrorCode::Internal, format!("it broke the rules of its channel: {why}"))
        }
        (other @ (End::Interrupted | End::OutputLimit | End::BadFile { .. } | End::OtherLanguage { .. }), _) => {
            error(ErrorCode::Internal, format!("the runner reports an end that a request can't have: {other:?}"))
        }
    };
    let value = exit.value.and_then(|value| serde_json::from_str(value.get()).ok());
    RequestDone { end, output: 0, value, wall_ms: exit.usage.wall_us.div_ceil(1000) }
}

/// The name of an end, in metrics.
pub(super) fn how(end: &RequestEnd) -> &'static str {
    match end {
        RequestEnd::Exited { .. } => "exited",
        RequestEnd::Signaled { .. } => "signaled",
        RequestEnd::TimedOut {} => "timed_out",
        RequestEnd::Cancelled {} => "cancelled",
        RequestEnd::OutOfMemory {} => "out_of_memory",
        RequestEnd::Failed { .. } => "failed",
        RequestEnd::Error { .. } | RequestEnd::Unknown => "error",
    }
}
