//! The wire between a worker and the runner in its container: length-delimited frames over one Unix stream socket.
//!
//! A frame is the length of what follows (`u32`, little-endian), one byte of kind, a run number (`u32`, little-endian;
//! 0 if the frame belongs to no run), then the payload: JSON for control frames, raw bytes for output. The worker
//! listens and the runner connects. When the worker closes the socket, the runner ends; when the runner closes it, the
//! worker gives the container up. A sandboxed job never sees this socket.
//!
//! Worker and runner are always of the same release, so [`WIRE`] is the only version number. The runner refuses
//! another.

mod files;
mod kind;
mod tools;

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use files::{Artifact, ArtifactEnd, ArtifactLimits, Input, Omission, Omissions, Why};
pub use kind::Kind;
pub use tools::{Tool, ToolCall, ToolFailure, ToolResult};

/// Version of this wire. [`Setup`] carries it, and a runner of another version refuses.
pub const WIRE: u32 = 4;

/// Largest frame either side accepts, in bytes, header excluded.
pub const MAX_FRAME: usize = 32 << 20;

/// First frame, worker to runner: how to set up the container.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Setup {
    /// Must be [`WIRE`].
    pub wire: u32,
    /// The languages that programs may be written in. A language that the container lacks is reported.
    pub languages: Vec<LanguageSetup>,
    /// Sandboxes made ahead of jobs (spares), for each zygote that a program was forked from or will be.
    pub spares: u32,
    /// Size of each sandbox's writable file systems together, in bytes (`/tmp`, `/workspace`, `/session`, `/dev/shm`).
    pub disk_bytes: u64,
    /// Bounds on the files that are collected from a run.
    pub artifacts: ArtifactLimits,
    /// Ceiling: a run's limits above these are lowered to them.
    pub ceiling: Limits,
    /// Whether to build the inner wall. If not, each job is a process without a sandbox, and the container must run one
    /// job only (reuse policy `job`).
    pub nested: bool,
}

/// A language that programs may be written in.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LanguageSetup {
    /// Its name, as in [`Run::language`].
    pub name: String,
    /// What the language's folder in the runner calls its `Options`; nothing if it has none.
    #[serde(default)]
    pub options: serde_json::Value,
}

/// Limits of one run. Zero is refused, except for [`Limits::grace_ms`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Wall-clock time, in milliseconds. Then the code is interrupted (`KeyboardInterrupt`), and killed
    /// [`Limits::grace_ms`] later.
    pub wall_ms: u64,
    /// Time between the interrupt and the kill, in milliseconds.
    pub grace_ms: u64,
    /// CPU time of all processes of the run together, in milliseconds.
    pub cpu_ms: u64,
    /// Memory of all processes of the job together, shared memory included, beyond what the zygote holds. In bytes.
    pub memory_bytes: u64,
    /// Number of processes and threads.
    pub pids: u32,
    /// Standard output and standard error together, in bytes.
    pub output_bytes: u64,
}

/// Where a run takes place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "in")]
pub enum Place {
    /// A fresh sandbox that ends with the run.
    Fresh,
    /// The named session's sandbox. It is made if it doesn't exist and `create` is set.
    Session {
        /// Opaque name, unique in the container.
        session: String,
        /// Whether the session may be made.
        create: bool,
    },
}

/// Runs one program. The run's number is that of the frame.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    /// Name of the language.
    pub language: String,
    /// The program.
    pub code: String,
    /// A command and its arguments, in place of a program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
    /// Text for standard input; `None` is an empty input.
    #[serde(default)]
    pub stdin: Option<String>,
    /// Environment variables added to the sandbox's own.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// JSON values that the code finds under these names. Only Python has inputs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, Box<RawValue>>,
    /// The sandbox to run in.
    pub place: Place,
    /// Limits; those above [`Setup::ceiling`] are lowered to it.
    pub limits: Limits,
    /// Tools the code may call.
    #[serde(default)]
    pub tools: Vec<Tool>,
    /// Whether somebody reads the output while the program runs. Each line is then sent at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow: bool,
}

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
    /// A [`Kind::Kill`] ended it.
    Killed,
    /// The named session doesn't exist in this container and was not to be made. For a [`Kind::Keep`], it may also be
    /// busy.
    NoSession,
    /// An input file could not be written into the sandbox. The code did not start.
    BadFile {
        /// The file's path, as in [`Input::path`].
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
    /// User and system CPU time, in microseconds.
    pub cpu_us: u64,
    /// Peak memory of the whole sandbox, in bytes: its processes, its memory files and the files in its storage.
    pub memory_bytes: u64,
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
    /// Value of the last expression as a MIME bundle (`text/plain` at least), where there is one.
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
}

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
        }
    }
}

/// Sent once, when the container is ready for its first run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ready {
    /// The languages that programs can be written in here, with what runs them, such as `Python 3.11.7`.
    pub languages: BTreeMap<String, String>,
    /// Preload modules that could be imported. Empty if they are loaded later.
    pub preloaded: Vec<String>,
    /// What this machine could not provide, in words for a person. Empty when all is well.
    pub warnings: Vec<String>,
    /// Whether the inner wall stands (fresh namespaces per job).
    pub nested: bool,
    /// Process id of the runner in the runner's own pid namespace.
    pub pid: u32,
    /// Memory of the runner's long-lived processes (runner, nursery, zygotes) that no file backs, in bytes; 0 if it was
    /// not measured.
    #[serde(default)]
    pub memory_bytes: u64,
}

/// What a check of the whole container found. It takes place while no run goes on and no sandbox is being made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// What is left and should not be, in words for a person. Empty if the container is clean.
    pub findings: Vec<String>,
    /// How long the check took, in microseconds.
    pub took_us: u64,
    /// As [`Ready::memory_bytes`], at the time of this check.
    #[serde(default)]
    pub memory_bytes: u64,
}

/// One frame, decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// What the payload is.
    pub kind: Kind,
    /// Which run it belongs to; 0 for none.
    pub run: u32,
    /// Payload.
    pub body: Vec<u8>,
}

/// Bytes before the payload: length, kind and run.
pub const HEADER: usize = 9;

impl Frame {
    /// A frame with these bytes.
    pub fn raw(kind: Kind, run: u32, body: impl Into<Vec<u8>>) -> Self {
        Self { kind, run, body: body.into() }
    }

    /// A frame with this value as JSON.
    pub fn json<T: Serialize>(kind: Kind, run: u32, value: &T) -> Result<Self, serde_json::Error> {
        Ok(Self { kind, run, body: serde_json::to_vec(value)? })
    }

    /// The payload as JSON.
    pub fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.body)
    }

    /// Appends the frame's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let len = (self.body.len() + HEADER - 4) as u32;
        out.reserve(HEADER + self.body.len());
        out.extend_from_slice(&len.to_le_bytes());
        out.push(self.kind as u8);
        out.extend_from_slice(&self.run.to_le_bytes());
        out.extend_from_slice(&self.body);
    }

    /// Decodes the frame at the front of `buf`. Returns it and the number of its bytes, or `None` while it is
    /// incomplete.
    ///
    /// # Errors
    /// `InvalidData` for an unknown kind, a length below the header's or above [`MAX_FRAME`].
    pub fn decode(buf: &[u8]) -> io::Result<Option<(Self, usize)>> {
        let bad = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        let Some(head) = buf.first_chunk::<HEADER>() else { return Ok(None) };
        let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        if !(HEADER - 4..=MAX_FRAME).contains(&len) {
            return Err(bad(format!("frame of {len} bytes")));
        }
        let kind = Kind::from_u8(head[4]).ok_or_else(|| bad(format!("frame of kind {}", head[4])))?;
        let run = u32::from_le_bytes([head[5], head[6], head[7], head[8]]);
        match buf.get(HEADER..4 + len) {
            Some(body) => Ok(Some((Self { kind, run, body: body.to_vec() }, 4 + len))),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_any_split() {
        let mut bytes = Vec::new();
        let sent = [Frame::raw(Kind::Stdout, 7, *b"\0\xff\r\n"), Frame::raw(Kind::Ping, 0, Vec::new())];
        sent.iter().for_each(|f| f.encode(&mut bytes));
        for cut in 0..bytes.len() {
            let (mut got, mut at) = (Vec::new(), 0);
            for end in [cut, bytes.len()] {
                while let Some((frame, used)) = Frame::decode(&bytes[at..end]).unwrap() {
                    got.push(frame);
                    at += used;
                }
            }
            assert_eq!(got, sent, "cut at {cut}");
        }
    }

    #[test]
    fn an_absurd_length_or_kind_is_refused() {
        for head in
            [[0xff, 0xff, 0xff, 0xff, 7, 0, 0, 0, 0], [0, 0, 0, 0, 7, 0, 0, 0, 0], [5, 0, 0, 0, 200, 0, 0, 0, 0]]
        {
            assert!(Frame::decode(&head).is_err(), "{head:?}");
        }
    }
}
