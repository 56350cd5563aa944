//! The wire between a worker and the runner in its container: length-delimited frames over one Unix stream socket.
//!
//! A frame is the length of what follows (`u32`, little-endian), one byte of kind, a run number (`u32`, little-endian;
//! 0 if the frame belongs to no run), then the payload: JSON for control frames, raw bytes for output. The worker
//! listens and the runner connects. When the worker closes the socket, the runner ends; when the runner closes it, the
//! worker gives the container up. A sandboxed job never sees this socket.
//!
//! Worker and runner are always of the same release, so [`WIRE`] is the only version number. The runner refuses
//! another.

mod beside;
mod byte_string;
mod checkpoint;
mod exit;
mod file_ops;
mod files;
mod kind;
mod run;
mod setup;
mod tools;

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};

pub use beside::{Beside, Command, Failure, Program, Work};
pub use byte_string::ByteString;
pub use checkpoint::{Checkpoint, Part, PartKind};
pub use exit::{CodeError, End, Exit, LONGEST_NOTE, MOST_NOTES, Usage};
pub use file_ops::{
    Digested, Entry, FileKind, FileOp, FileStat, Found, Listing, Match, Matches, Resolved, Transferred, WriteMode,
};
pub use files::{Artifact, ArtifactEnd, ArtifactLimits, Input, Omission, Omissions, Why};
pub use kind::Kind;
pub use run::{Place, Run};
pub use setup::{LanguageSetup, Limits, Setup};
pub use tools::{ANSWER_WINDOW, Parameter, ParameterKind, Tool, ToolCall, ToolFailure, ToolResult};

/// Version of this wire. [`Setup`] carries it, and a runner of another version refuses.
pub const WIRE: u32 = 7;

/// Largest frame either side accepts, in bytes, header excluded.
pub const MAX_FRAME: usize = 32 << 20;

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
