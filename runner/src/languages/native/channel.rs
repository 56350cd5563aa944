//! The job's end of its channel: see [`crate::channel`] for the runner's.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::frames::{CodeError, Failure, Work};
use crate::seqpacket::receive_with_fds;

/// The first message of the runner.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", tag = "op")]
pub(super) enum Order {
    /// Run a program.
    Run(Program),
    /// Do something beside a session's program.
    Beside {
        /// What to do.
        work: Work,
    },
}

/// The program of a run, as the runner sends it.
#[derive(Deserialize)]
pub(in crate::languages) struct Program {
    /// The program's text.
    pub(in crate::languages) code: String,
    /// Name of its file in the directory where programs start.
    pub(in crate::languages) name: String,
    /// Whether the file is there.
    pub(in crate::languages) written: bool,
    /// A command and its arguments, in place of `code`.
    #[serde(default)]
    pub(in crate::languages) argv: Vec<String>,
    /// Environment variables in addition to those of every program.
    pub(in crate::languages) env: BTreeMap<String, String>,
    /// Whether the process lives on for the session's next program.
    pub(in crate::languages) session: bool,
    /// Standard input, output and error.
    #[serde(skip)]
    pub(in crate::languages) streams: Vec<OwnedFd>,
}

/// The job's end of its channel.
pub(in crate::languages) struct Channel(UnixStream);

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Channel {
    pub(in crate::languages) fn new(fd: OwnedFd) -> Self {
        Self(fd.into())
    }

    /// Waits for the next program.
    ///
    /// # Errors
    /// If the socket fails or the message is malformed; `UnexpectedEof` if the runner is gone.
    pub(in crate::languages) fn receive(&mut self) -> io::Result<Program> {
        let (program, streams) = self.message()?;
        Ok(Program { streams, ..program })
    }

    /// Waits for what this process is to do. Also returns standard input, output and error.
    ///
    /// # Errors
    /// As [`Channel::receive`].
    pub(super) fn order(&mut self) -> io::Result<(Order, Vec<OwnedFd>)> {
        self.message()
    }

    /// Receives a message, and the descriptors that come with it.
    fn message<T: DeserializeOwned>(&mut self) -> io::Result<(T, Vec<OwnedFd>)> {
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
        // What may follow the JSON, texts for other languages, is not read.
        Ok((T::deserialize(&mut serde_json::Deserializer::from_slice(&bytes[4..]))?, streams))
    }

    /// Says that the process is in its sandbox.
    pub(in crate::languages) fn ready(&mut self) -> io::Result<()> {
        self.send(&json!({"op": "ready"}))
    }

    /// Says why the process can't enter its sandbox.
    pub(in crate::languages) fn failed(&mut self, reason: &str) -> io::Result<()> {
        self.send(&json!({"op": "failed", "reason": reason}))
    }

    /// Says that the program starts.
    pub(in crate::languages) fn started(&mut self) -> io::Result<()> {
        self.send(&json!({"op": "started"}))
    }

    /// Says that a session's program has ended with this status.
    pub(in crate::languages) fn exited(&mut self, code: i32) -> io::Result<()> {
        self.send(&json!({"op": "done", "how": "exit", "code": code}))
    }

    /// Says that the program could not be started.
    pub(in crate::languages) fn raised(&mut self, message: String) -> io::Result<()> {
        let error = CodeError { kind: "OSError".into(), message, traceback: String::new() };
        self.send(&json!({"op": "done", "how": "raised", "error": error}))
    }

    /// Says that a file operation is done, and its result.
    pub(super) fn finished(&mut self, value: Option<&RawValue>) -> io::Result<()> {
        self.write(&format!(r#"{{"op":"done","how":"ok","value":{}}}"#, value.map_or("null", RawValue::get)))
    }

    /// Says why a command could not be started, or a file operation failed.
    pub(super) fn refused(&mut self, failure: &Failure) -> io::Result<()> {
        self.send(&json!({"op": "done", "how": "failed", "failure": failure}))
    }

    fn send(&mut self, message: &Value) -> io::Result<()> {
        self.write(&message.to_string())
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.0.write_all(&[&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat())
    }
}
