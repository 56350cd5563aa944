//! The wire between a worker and the runner in its container: length-delimited frames over one Unix stream socket.
//!
//! A frame is `u32` little-endian length of what follows, one byte of kind, a `u32` little-endian run number (0 where
//! none applies), then the payload: JSON for control frames, raw bytes for output. The runner connects, the worker
//! listens; end of file on either side ends the other. A sandboxed job never sees this socket.
//!
//! Both ends are of one release, so nothing here is versioned beyond [`WIRE`]; the runner refuses another number.

mod files;

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use files::{Artifact, ArtifactEnd, ArtifactLimits, Input, Omission, Omissions, Why};

/// Number of this wire; carried by [`Setup`] and refused when different.
pub const WIRE: u32 = 2;

/// Largest frame either side accepts, in bytes, header excluded.
pub const MAX_FRAME: usize = 32 << 20;

/// First frame, worker to runner: how to set the pool's container up.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Setup {
    /// Must be [`WIRE`].
    pub wire: u32,
    /// Absolute path of the Python interpreter inside the container.
    pub python: String,
    /// Modules that the loaded zygote imports; empty means that only the bare zygote exists. Missing ones are skipped and reported.
    pub preload: Vec<String>,
    /// Start the loaded zygote at once (`true`) or when a job first imports one of its modules.
    pub preload_eager: bool,
    /// Sandboxes made ahead of the job, for the bare and the loaded zygote each.
    pub spares: u32,
    /// Size of each sandbox's writable file systems together, in bytes (`/tmp`, `/workspace`, `/session`, `/dev/shm`).
    pub disk_bytes: u64,
    /// How much is collected of what a run leaves.
    pub artifacts: ArtifactLimits,
    /// Ceilings: a run may ask for less, never for more.
    pub ceiling: Limits,
    /// `false` where nested namespaces are forbidden: one process per job without the inner wall (reuse policy `job`).
    pub nested: bool,
}

/// Limits of one run. Zero is never valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Wall clock, in milliseconds; then an interrupt that the code sees, and after [`Limits::grace_ms`] a kill.
    pub wall_ms: u64,
    /// Between the interrupt and the kill, in milliseconds.
    pub grace_ms: u64,
    /// CPU time, in milliseconds.
    pub cpu_ms: u64,
    /// Memory that the job may hold beyond what the zygote holds, all its processes and shared memory together, in bytes.
    pub memory_bytes: u64,
    /// Processes and threads.
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
    /// The named session's sandbox; made when it does not exist and `create` is set.
    Session {
        /// Opaque name, unique in the container.
        session: String,
        /// Whether it may be made.
        create: bool,
    },
}

/// One tool that the code may call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Name as the client knows it.
    pub name: String,
    /// Name as the code sees it: a valid identifier.
    pub alias: String,
    /// Shown as the function's doc string.
    #[serde(default)]
    pub description: String,
    /// Names of the arguments in order, for positional calls; from the input schema's `properties`.
    #[serde(default)]
    pub params: Vec<String>,
    /// Hand the raw string to the code in place of parsed JSON.
    #[serde(default)]
    pub raw: bool,
}

/// Run one program. The run's number is the frame's.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    /// `python` is the only one yet.
    pub language: String,
    /// The program.
    pub code: String,
    /// Fed to standard input; nothing means an empty one.
    #[serde(default)]
    pub stdin: Option<String>,
    /// Environment variables added to the sandbox's own.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Where.
    pub place: Place,
    /// Limits, already within the ceiling.
    pub limits: Limits,
    /// Tools the code may call.
    #[serde(default)]
    pub tools: Vec<Tool>,
    /// Whether somebody reads its output while it runs: each line then goes out at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow: bool,
}

/// How a run ended, by the kernel's word through the runner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum End {
    /// The program ran to its end, or exited with this status (`sys.exit`, `os._exit`).
    Exited {
        /// Exit status.
        code: i32,
    },
    /// The code raised, or could not be compiled; details in [`Exit::error`].
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
    /// Memory ran out: the limit over all its processes, the kernel's OOM killer, or a `MemoryError` that the code did not handle.
    OutOfMemory,
    /// More output than allowed; what came before the cap was delivered.
    OutputLimit,
    /// A [`Kind::Kill`] ended it.
    Killed,
    /// Named session does not exist in this container and might not be made.
    NoSession,
    /// A file that it was to find could not be placed; nothing of the code ran.
    BadFile {
        /// Which, below `/workspace`.
        path: String,
        /// Why.
        reason: String,
    },
    /// The runner could not start it; nothing of the code ran.
    NotStarted {
        /// Why.
        reason: String,
    },
}

/// An error of the code's, as its own process told it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeError {
    /// Its type's name, `ValueError` say.
    #[serde(rename = "type")]
    pub kind: String,
    /// `str()` of it.
    pub message: String,
    /// Formatted traceback, with the job's own source lines.
    pub traceback: String,
}

/// What a run used, from the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// From the code's arrival in the sandbox to its end, in microseconds.
    pub wall_us: u64,
    /// User and system CPU time, in microseconds.
    pub cpu_us: u64,
    /// Peak memory of the whole sandbox, in bytes: its processes and what it holds in memory files.
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
    /// What it used.
    pub usage: Usage,
    /// Phases in microseconds, for metrics: `acquire` (a spare or a fresh fork), `start`, `run`, `collect`.
    #[serde(default)]
    pub phases: BTreeMap<String, u64>,
    /// Whether a sandbox made ahead was used.
    #[serde(default)]
    pub warm: bool,
    /// Whether the session that it ran in lives on.
    #[serde(default)]
    pub session_lives: bool,
    /// What was not sent of the files that it left.
    #[serde(default)]
    pub left_out: Omissions,
}

impl Exit {
    /// An exit that has nothing to show but how it ended.
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

/// Once, when the container is ready for its first run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ready {
    /// `Python 3.11.7`, say.
    pub python: String,
    /// Preload modules that could be imported; empty until a lazy loaded zygote starts.
    pub preloaded: Vec<String>,
    /// What could not be had, in words for a person; empty when all is well.
    pub warnings: Vec<String>,
    /// Whether the inner wall stands (fresh namespaces per job).
    pub nested: bool,
    /// Process id of the runner in the runner's own pid namespace.
    pub pid: u32,
    /// Memory that its standing processes (runner, nursery, zygotes) share with nobody outside, in bytes; 0 where nobody has looked.
    #[serde(default)]
    pub memory_bytes: u64,
}

/// The code calls a tool.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolCall {
    /// Number of the call in its run, given by the runner, from 1.
    pub call: u32,
    /// The tool's name (not its alias).
    pub name: String,
    /// Arguments: a JSON object.
    pub arguments: Box<RawValue>,
}

/// The answer to a [`ToolCall`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolResult {
    /// Number of the call.
    pub call: u32,
    /// The result, any JSON; or the error.
    pub result: Result<Box<RawValue>, String>,
}

/// What a look at the whole container found, once no run went on and the next sandboxes were ready.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// What is there and should not be, in words for a person; empty when the container is clean.
    pub findings: Vec<String>,
    /// How long the look took, in microseconds.
    pub took_us: u64,
    /// As [`Ready::memory_bytes`], at this look.
    #[serde(default)]
    pub memory_bytes: u64,
}

/// Kinds of frames. `W` worker to runner, `R` runner to worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// W: [`Setup`], the first frame.
    Setup = 1,
    /// W: [`Run`].
    Run = 2,
    /// W: [`ToolResult`].
    ToolResult = 3,
    /// W: raise `KeyboardInterrupt` in the code; no payload.
    Interrupt = 4,
    /// W: kill the run's sandbox; no payload. Its [`Exit`] follows.
    Kill = 5,
    /// W: end a session; payload is its name. [`Kind::SessionClosed`] follows.
    CloseSession = 6,
    /// W: answered by [`Kind::Pong`] from the main loop, so that a hung runner shows.
    Ping = 7,
    /// W: end everything and exit 0.
    Shutdown = 8,
    /// W: prove that nothing of the runs so far is left; no payload. [`Kind::Verified`] follows once no run goes on.
    Verify = 9,
    /// W: [`Input`]; [`Kind::InputData`] follows, and at last the [`Run`] of the same number.
    Input = 10,
    /// W: raw bytes of the last [`Input`].
    InputData = 11,
    /// W: send every file below `/session`; payload is the session's name. Its artifacts and [`Exit`] follow, as of a run with this number.
    Keep = 12,
    /// R: [`Ready`].
    Ready = 64,
    /// R: the code is about to run; no payload.
    Started = 65,
    /// R: raw bytes of standard output.
    Stdout = 66,
    /// R: raw bytes of standard error.
    Stderr = 67,
    /// R: [`ToolCall`].
    ToolCall = 68,
    /// R: a MIME bundle (JSON object) that the code displayed.
    Display = 69,
    /// R: [`Exit`], the last of a run.
    Exit = 70,
    /// R: payload is the session's name; also sent unasked when a session's process died between runs.
    SessionClosed = 71,
    /// R: answer to [`Kind::Ping`].
    Pong = 72,
    /// R: text; the runner can't go on and exits.
    Fatal = 73,
    /// R: [`Proof`], with the number of the last [`Kind::Verify`] that it answers; earlier ones are answered too.
    Verified = 74,
    /// R: [`Artifact`], after the code's end and before [`Exit`].
    Artifact = 75,
    /// R: raw bytes of the last [`Artifact`].
    ArtifactData = 76,
    /// R: [`ArtifactEnd`].
    ArtifactEnd = 77,
}

impl Kind {
    /// The kind of that number.
    pub fn from_u8(n: u8) -> Option<Self> {
        use Kind::*;
        [
            Setup,
            Run,
            ToolResult,
            Interrupt,
            Kill,
            CloseSession,
            Ping,
            Shutdown,
            Verify,
            Input,
            InputData,
            Keep,
            Ready,
            Started,
            Stdout,
            Stderr,
            ToolCall,
            Display,
            Exit,
            SessionClosed,
            Pong,
            Fatal,
            Verified,
            Artifact,
            ArtifactData,
            ArtifactEnd,
        ]
        .into_iter()
        .find(|k| *k as u8 == n)
    }
}

/// One frame, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// What it is.
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

    /// Takes one frame off the front of `buf`: the frame and how many bytes it was; `None` while it is incomplete.
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
