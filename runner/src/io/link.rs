//! The runner's end of the socket to its worker: it queues and collects frames, and never blocks.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use serde::Serialize;

use crate::frames::{Frame, Kind};

/// While more bytes than this wait for the worker, jobs' output stays in its pipes, which slows its writers down.
const HIGH_WATER: usize = 4 << 20;

/// One end of the socket.
pub(crate) struct Link {
    socket: UnixStream,
    inbox: Vec<u8>,
    taken: usize,
    outbox: Vec<u8>,
    sent: usize,
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Link {
    /// Wraps a connected socket. It stays blocking until [`Link::unblock`].
    pub(crate) fn new(socket: UnixStream) -> Self {
        Self { socket, inbox: Vec::new(), taken: 0, outbox: Vec::new(), sent: 0 }
    }

    /// From now on reads and writes never wait.
    pub(crate) fn unblock(&self) -> io::Result<()> {
        self.socket.set_nonblocking(true)
    }

    /// Reads once, at most one `chunk`; `false` at end of file.
    pub(crate) fn fill(&mut self, chunk: &mut [u8]) -> io::Result<bool> {
        loop {
            match self.socket.read(chunk) {
                Ok(0) => return Ok(false),
                Ok(n) => {
                    self.inbox.extend_from_slice(&chunk[..n]);
                    return Ok(true);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Takes the next whole frame.
    pub(crate) fn next(&mut self) -> io::Result<Option<Frame>> {
        match Frame::decode(&self.inbox[self.taken..])? {
            Some((frame, used)) => {
                self.taken += used;
                Ok(Some(frame))
            }
            None => {
                self.inbox.drain(..self.taken);
                self.taken = 0;
                Ok(None)
            }
        }
    }

    /// Queues a frame with raw bytes.
    pub(crate) fn push(&mut self, kind: Kind, run: u32, body: &[u8]) {
        Frame::raw(kind, run, body).encode(&mut self.outbox);
    }

    /// Queues a frame with a value as JSON.
    pub(crate) fn push_json<T: Serialize>(&mut self, kind: Kind, run: u32, value: &T) -> serde_json::Result<()> {
        Frame::json(kind, run, value)?.encode(&mut self.outbox);
        Ok(())
    }

    /// Sends what is queued, as far as the socket takes it.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.outbox.len() {
            match self.socket.write(&self.outbox[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    // In a steady flow, there may never be a moment when all is sent.
                    if self.sent * 2 > self.outbox.len() {
                        self.outbox.drain(..self.sent);
                        self.sent = 0;
                    }
                    return Ok(());
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.outbox.clear();
        self.sent = 0;
        // After one large output, give its memory back.
        self.outbox.shrink_to(1 << 20);
        Ok(())
    }

    /// Whether something waits to be sent.
    pub(crate) fn pending(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Whether so much waits that jobs' output should not be read.
    pub(crate) fn congested(&self) -> bool {
        self.outbox.len() - self.sent > HIGH_WATER
    }
}
