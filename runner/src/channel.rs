//! The runner's end of one job's channel: bounded, never blocking, and nothing in it is trusted.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::frames::CodeError;

/// Largest message, in bytes.
const MAX_MESSAGE: usize = 16 << 20;

/// Most bytes that wait for a job which does not read.
const MAX_WAITING: usize = 64 << 20;

/// Any message of a job's; which fields are there depends on `op`.
#[derive(Debug, Deserialize)]
pub(crate) struct Message {
    /// `ready`, `failed`, `started`, `call`, `display` or `done`.
    pub(crate) op: String,
    /// Number of a call, the job's own count.
    #[serde(default)]
    pub(crate) call: Option<u32>,
    /// Name of the tool called.
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// Arguments of the call.
    #[serde(default)]
    pub(crate) arguments: Option<Box<RawValue>>,
    /// What is displayed.
    #[serde(default)]
    pub(crate) data: Option<Box<RawValue>>,
    /// How the code ended.
    #[serde(default)]
    pub(crate) how: Option<String>,
    /// Exit status that the code asked for.
    #[serde(default)]
    pub(crate) code: Option<i32>,
    /// The error that ended it.
    #[serde(default)]
    pub(crate) error: Option<CodeError>,
    /// Value of the last expression.
    #[serde(default)]
    pub(crate) value: Option<Box<RawValue>>,
    /// Why a child could not enter its sandbox.
    #[serde(default)]
    pub(crate) reason: Option<String>,
}

/// What a read found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Got {
    /// Nothing more now.
    Empty,
    /// The job's end is closed.
    Closed,
}

/// The runner's end.
pub(crate) struct Channel {
    socket: UnixStream,
    inbox: Vec<u8>,
    /// Bytes of the inbox that were taken.
    taken: usize,
    outbox: Vec<u8>,
    sent: usize,
    /// Bytes received in the current run.
    pub(crate) received: u64,
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Channel {
    /// A new channel: the runner's end, and the job's to be sent to a zygote.
    pub(crate) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let channel = Self { socket: ours, inbox: Vec::new(), taken: 0, outbox: Vec::new(), sent: 0, received: 0 };
        Ok((channel, theirs.into()))
    }

    /// Reads what is there, by the `chunk`; messages are then taken with [`Channel::next`].
    pub(crate) fn fill(&mut self, chunk: &mut [u8]) -> io::Result<Got> {
        loop {
            match io::Read::read(&mut self.socket, chunk) {
                Ok(0) => return Ok(Got::Closed),
                Ok(n) => {
                    self.inbox.extend_from_slice(&chunk[..n]);
                    self.received += n as u64;
                    // A whole message at most, lest one job's flood starves the others.
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
    /// What is wrong with it, for the user's eyes.
    pub(crate) fn next(&mut self) -> Result<Option<Message>, String> {
        let waiting = &self.inbox[self.taken..];
        let length = waiting.first_chunk::<4>().map(|head| u32::from_le_bytes(*head) as usize);
        if let Some(length) = length.filter(|length| *length > MAX_MESSAGE) {
            return Err(format!("a message of {length} bytes on the job's channel, more than {MAX_MESSAGE}"));
        }
        let Some(body) = length.and_then(|length| waiting.get(4..4 + length)) else {
            // Once for all that were taken: a flood of small ones is not moved for each.
            self.inbox.drain(..self.taken);
            self.taken = 0;
            return Ok(None);
        };
        let message =
            serde_json::from_slice(body).map_err(|e| format!("a malformed message on the job's channel: {e}"));
        self.taken += 4 + body.len();
        message.map(Some)
    }

    /// Sends a message, with descriptors on its first byte; what the socket does not take waits.
    ///
    /// # Errors
    /// When the job is gone, or has not read for too long.
    pub(crate) fn send(&mut self, json: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        if self.outbox.len() - self.sent > MAX_WAITING {
            return Err(io::Error::other("the code does not read the results of its tool calls"));
        }
        let mut bytes = Vec::with_capacity(json.len() + 4);
        bytes.extend_from_slice(&(json.len() as u32).to_le_bytes());
        bytes.extend_from_slice(json);
        if self.outbox.is_empty() && !fds.is_empty() {
            let sent = crate::seqpacket::send_with_fds(self.socket.as_fd(), &bytes, fds)?;
            self.outbox.extend_from_slice(&bytes[sent..]);
        } else {
            self.outbox.extend_from_slice(&bytes);
        }
        self.flush()
    }

    /// Sends what waits, as far as the job takes it.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.outbox.len() {
            match io::Write::write(&mut self.socket, &self.outbox[self.sent..]) {
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

    /// Whether something waits to be sent.
    pub(crate) fn pending(&self) -> bool {
        !self.outbox.is_empty()
    }
}
