//! The runner's end of a job's channel: the socket that carries programs and tool results to a job's process, and its
//! messages back.
//!
//! The engine's loop calls it, so nothing here may block, and what it stores is bounded. Everything that arrives comes
//! from a job and is never trusted. A message is a `u32` little-endian length, then that many bytes of JSON; texts may
//! follow the JSON of a program.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::frames::{CodeError, Failure};

/// Largest message that a job may send, in bytes.
const MAX_MESSAGE: usize = 16 << 20;

/// While more bytes than this wait for a job that doesn't read, nothing more is accepted for it.
const MAX_WAITING: usize = 64 << 20;

/// Any message from a job's process. `op` decides which of the other fields are set.
#[derive(Debug, Deserialize)]
pub(crate) struct Message {
    /// `ready`, `failed`, `started`, `call`, `waits`, `display` or `done`.
    pub(crate) op: String,
    /// `call`: number of the tool call, in the job's own count.
    #[serde(default)]
    pub(crate) call: Option<u32>,
    /// `call`: name of the tool.
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// `call`: arguments of the tool.
    #[serde(default)]
    pub(crate) arguments: Option<Box<RawValue>>,
    /// `call` and `waits`: how long the process has waited for answers in this run, in milliseconds. Waits that it has
    /// announced with `waits` are not in it.
    #[serde(default)]
    pub(crate) waited: Option<u64>,
    /// `waits`: the number of answers that the process has got in this run.
    #[serde(default)]
    pub(crate) got: Option<u64>,
    /// `waits`: how long it has waited since the last of them, in milliseconds.
    #[serde(default)]
    pub(crate) for_ms: Option<u64>,
    /// `waits`: whether it has set a timer of its own, so that it must not be stopped.
    #[serde(default)]
    pub(crate) timers: bool,
    /// `display`: the MIME bundle to show.
    #[serde(default)]
    pub(crate) data: Option<Box<RawValue>>,
    /// `done`: how the code ended (`ok`, `exit`, `raised`, `interrupted`, `memory` or `failed`).
    #[serde(default)]
    pub(crate) how: Option<String>,
    /// `done`: whether the process ends now, although it has a session, because it can't tell what it has of the run.
    #[serde(default)]
    pub(crate) over: bool,
    /// `done`: exit status that the code asked for.
    #[serde(default)]
    pub(crate) code: Option<i32>,
    /// `done`: the exception that ended the code.
    #[serde(default)]
    pub(crate) error: Option<CodeError>,
    /// `done`: value of the last expression, as a MIME bundle.
    #[serde(default)]
    pub(crate) value: Option<Box<RawValue>>,
    /// `done`: what whoever wrote the code should know about it.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
    /// `done`, of what runs beside a session's program: why it could not be started, or failed.
    #[serde(default)]
    pub(crate) failure: Option<Failure>,
    /// `failed`: why the process could not enter its sandbox.
    #[serde(default)]
    pub(crate) reason: Option<String>,
}

/// What a read found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Got {
    /// Nothing more to read now, or enough was read for this turn.
    Empty,
    /// The job's end is closed.
    Closed,
}

/// The runner's end of a job's channel.
pub(crate) struct Channel {
    socket: UnixStream,
    inbox: Vec<u8>,
    /// Bytes at the front of the inbox whose messages were taken.
    taken: usize,
    outbox: Vec<u8>,
    sent: usize,
    /// Descriptors that are still to be sent, and the position in the outbox of the byte that they go with.
    attached: Option<(usize, Vec<OwnedFd>)>,
    /// Bytes received in the current run.
    pub(crate) received: u64,
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Channel {
    /// Makes a channel: the runner's end, and the job's end, which is sent to a zygote.
    pub(crate) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let channel = Self {
            socket: ours,
            inbox: Vec::new(),
            taken: 0,
            outbox: Vec::new(),
            sent: 0,
            attached: None,
            received: 0,
        };
        Ok((channel, theirs.into()))
    }

    /// Reads what is there, at most one `chunk` at a time. Take the messages with [`Channel::next`] afterwards.
    pub(crate) fn fill(&mut self, chunk: &mut [u8]) -> io::Result<Got> {
        loop {
            match io::Read::read(&mut self.socket, chunk) {
                Ok(0) => return Ok(Got::Closed),
                Ok(n) => {
                    self.inbox.extend_from_slice(&chunk[..n]);
                    self.received += n as u64;
                    // Stop once more than the largest message is there, so that one job's flood doesn't starve the
                    // others.
                    if n < chunk.len() || self.inbox.len() > MAX_MESSAGE {
                        return Ok(Got::Empty);
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Got::Empty),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Ok(Got::Closed),
                Err(e) => return Err(e),
            }
        }
    }

    /// Takes the next whole message.
    ///
    /// # Errors
    /// What is wrong with the message, in words for the user.
    pub(crate) fn next(&mut self) -> Result<Option<Message>, String> {
        let waiting = &self.inbox[self.taken..];
        let length = waiting.first_chunk::<4>().map(|head| u32::from_le_bytes(*head) as usize);
        if let Some(length) = length.filter(|length| *length > MAX_MESSAGE) {
            return Err(format!("a message of {length} bytes on the job's channel, more than {MAX_MESSAGE}"));
        }
        let Some(body) = length.and_then(|length| waiting.get(4..4 + length)) else {
            // All taken messages are removed at once: in a flood of small ones, the rest must not be moved for each.
            self.inbox.drain(..self.taken);
            self.taken = 0;
            return Ok(None);
        };
        let message =
            serde_json::from_slice(body).map_err(|e| format!("a malformed message on the job's channel: {e}"));
        self.taken += 4 + body.len();
        message.map(Some)
    }

    /// Sends a message, with the descriptors attached to its first byte. What the socket doesn't take waits for
    /// [`Channel::flush`], behind what waits already.
    ///
    /// # Errors
    /// If the job's process is gone, or too much waits for it already.
    pub(crate) fn send(&mut self, json: &[u8], fds: Vec<OwnedFd>) -> io::Result<()> {
        if self.outbox.len() - self.sent > MAX_WAITING {
            return Err(io::Error::other("the code does not read the results of its tool calls"));
        }
        if !fds.is_empty() {
            // Only the message that begins a run has some, and a process has one run at a time.
            if self.attached.is_some() {
                return Err(io::Error::other("the code did not take its last run"));
            }
            self.attached = Some((self.outbox.len(), fds));
        }
        self.outbox.reserve(json.len() + 4);
        self.outbox.extend_from_slice(&(json.len() as u32).to_le_bytes());
        self.outbox.extend_from_slice(json);
        self.flush()
    }

    /// Sends what waits, as far as the socket takes it.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.outbox.len() {
            let sent = match &self.attached {
                Some((at, fds)) if *at == self.sent => {
                    let sent = crate::seqpacket::send_with_fds(self.socket.as_fd(), &self.outbox[self.sent..], fds);
                    if sent.is_ok() {
                        self.attached = None;
                    }
                    sent
                }
                Some((at, _)) => io::Write::write(&mut self.socket, &self.outbox[self.sent..*at]),
                None => io::Write::write(&mut self.socket, &self.outbox[self.sent..]),
            };
            match sent {
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.outbox.clear();
        self.sent = 0;
        Ok(())
    }

    /// Whether everything that was sent here was taken, and nothing waits to be sent.
    pub(crate) fn is_quiet(&self) -> bool {
        let unread = rustix::io::ioctl_fionread(&self.socket).unwrap_or(1);
        unread == 0 && self.taken == self.inbox.len() && self.outbox.is_empty()
    }

    /// Whether something waits to be sent.
    pub(crate) fn pending(&self) -> bool {
        !self.outbox.is_empty()
    }
}
