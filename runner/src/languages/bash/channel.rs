//! The job's end of its channel: see [`crate::channel`] for the runner's.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::frames::CodeError;
use crate::seqpacket::receive_with_fds;

/// The program of a run, as the runner sends it.
#[derive(Deserialize)]
pub(super) struct Program {
    /// What bash executes.
    pub(super) code: String,
    /// A command and its arguments, in place of `code`.
    #[serde(default)]
    pub(super) argv: Vec<String>,
    /// Environment variables in addition to those of every program.
    pub(super) env: BTreeMap<String, String>,
    /// Whether the process lives on for the session's next program.
    pub(super) session: bool,
    /// Standard input, output and error.
    #[serde(skip)]
    pub(super) streams: Vec<OwnedFd>,
}

impl Program {
    /// What bash executes. A command is executed by the shell, too, so that in a session it may also be a function.
    pub(super) fn script(&self) -> &str {
        if self.argv.is_empty() { &self.code } else { "\"$@\"" }
    }
}

/// The job's end of its channel.
pub(super) struct Channel(UnixStream);

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Channel {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self(fd.into())
    }

    /// Waits for the next program.
    ///
    /// # Errors
    /// If the socket fails or the message is malformed; `UnexpectedEof` if the runner is gone.
    pub(super) fn receive(&mut self) -> io::Result<Program> {
        let (mut bytes, mut streams) = (Vec::new(), Vec::new());
        let mut chunk = vec![0; 64 << 10];
        let whole =
            |bytes: &[u8]| bytes.first_chunk().is_some_and(|n| bytes.len() - 4 >= u32::from_le_bytes(*n) as usize);
        while !whole(&bytes) {
            let (got, fds) = receive_with_fds(self.0.as_fd(), &mut chunk)?;
            if got == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            bytes.extend_from_slice(&chunk[..got]);
            streams.extend(fds);
        }
        // What may follow the program, texts for other languages, is not read.
        let program = Program::deserialize(&mut serde_json::Deserializer::from_slice(&bytes[4..]))?;
        Ok(Program { streams, ..program })
    }

    /// Says that the process is in its sandbox.
    pub(super) fn ready(&mut self) -> io::Result<()> {
        self.send(&json!({"op": "ready"}))
    }

    /// Says why the process can't enter its sandbox.
    pub(super) fn failed(&mut self, reason: &str) -> io::Result<()> {
        self.send(&json!({"op": "failed", "reason": reason}))
    }

    /// Says that the program starts.
    pub(super) fn started(&mut self) -> io::Result<()> {
        self.send(&json!({"op": "started"}))
    }

    /// Says that a session's program has ended with this status.
    pub(super) fn exited(&mut self, code: i32) -> io::Result<()> {
        self.send(&json!({"op": "done", "how": "exit", "code": code}))
    }

    /// Says that the program could not be started.
    pub(super) fn raised(&mut self, message: String) -> io::Result<()> {
        let error = CodeError { kind: "OSError".into(), message, traceback: String::new() };
        self.send(&json!({"op": "done", "how": "raised", "error": error}))
    }

    fn send(&mut self, message: &Value) -> io::Result<()> {
        let text = message.to_string();
        self.0.write_all(&[&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat())
    }
}
