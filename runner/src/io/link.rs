//! The runner's end of the socket to its worker: it queues and collects frames, and never blocks.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::frames::{Frame, Kind};

/// While more bytes than this wait for the worker, jobs' output stays in its pipes, which slows its writers down.
const HIGH_WATER: usize = 4 << 20;

/// How long a frame that nobody waits for may stay here, so that the next one goes with it. Each send wakes the worker,
/// which costs more than many a program, and a short program is over within this time.
const PATIENCE: Duration = Duration::from_millis(1);

/// With more bytes than this, no frame waits for another.
const PATIENT_BYTES: usize = 32 << 10;

/// One end of the socket.
pub(crate) struct Link {
    socket: UnixStream,
    inbox: Vec<u8>,
    taken: usize,
    outbox: Vec<u8>,
    sent: usize,
    /// When the first frame was queued, if all that are queued can wait.
    patient_since: Option<Instant>,
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Link {
    /// Wraps a connected socket. It stays blocking until [`Link::unblock`].
    pub(crate) fn new(socket: UnixStream) -> Self {
        Self { socket, inbox: Vec::new(), taken: 0, outbox: Vec::new(), sent: 0, patient_since: None }
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
        self.patient_since = None;
        Frame::raw(kind, run, body).encode(&mut self.outbox);
    }

    /// Queues a frame with raw bytes that can wait [`PATIENCE`] for the next frame.
    pub(crate) fn push_patiently(&mut self, kind: Kind, run: u32, body: &[u8]) {
        if self.outbox.is_empty() {
            self.patient_since = Some(Instant::now());
        }
        Frame::raw(kind, run, body).encode(&mut self.outbox);
    }

    /// Queues a frame with a value as JSON.
    pub(crate) fn push_json<T: Serialize>(&mut self, kind: Kind, run: u32, value: &T) -> serde_json::Result<()> {
        self.patient_since = None;
        Frame::json(kind, run, value)?.encode(&mut self.outbox);
        Ok(())
    }

    /// When frames that can wait have waited long enough.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.patient_since.map(|since| since + PATIENCE)
    }

    /// Sends what is queued, as far as the socket takes it, unless all of it can wait.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if self.outbox.len() <= PATIENT_BYTES && self.deadline().is_some_and(|at| Instant::now() < at) {
            return Ok(());
        }
        self.patient_since = None;
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

    /// Whether something waits for room in the socket.
    pub(crate) fn pending(&self) -> bool {
        !self.outbox.is_empty() && self.patient_since.is_none()
    }

    /// Whether so much waits that jobs' output should not be read.
    pub(crate) fn congested(&self) -> bool {
        self.outbox.len() - self.sent > HIGH_WATER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two ends of a socket. The second one never waits.
    fn pair() -> (Link, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        (Link::new(ours), theirs)
    }

    /// The kinds of the frames that have arrived.
    fn arrived(socket: &mut UnixStream) -> Vec<Kind> {
        let mut bytes = vec![0; 1 << 20];
        let n = socket.read(&mut bytes).unwrap_or(0);
        let (mut kinds, mut at) = (Vec::new(), 0);
        while let Some((frame, used)) = Frame::decode(&bytes[at..n]).unwrap() {
            kinds.push(frame.kind);
            at += used;
        }
        kinds
    }

    #[test]
    fn a_patient_frame_goes_with_the_next_or_when_its_time_is_over() {
        let (mut link, mut worker) = pair();
        link.push_patiently(Kind::Started, 1, &[]);
        link.flush().unwrap();
        assert!(arrived(&mut worker).is_empty() && !link.pending());
        link.push(Kind::Pong, 0, &[]);
        link.flush().unwrap();
        assert_eq!((arrived(&mut worker), link.deadline()), (vec![Kind::Started, Kind::Pong], None));

        link.push_patiently(Kind::Started, 2, &[]);
        while link.deadline().unwrap() > Instant::now() {
            std::hint::spin_loop();
        }
        link.flush().unwrap();
        assert_eq!((arrived(&mut worker), link.deadline()), (vec![Kind::Started], None));
    }

    #[test]
    fn many_bytes_and_frames_behind_an_urgent_one_do_not_wait() {
        let (mut link, mut worker) = pair();
        link.push_patiently(Kind::Stdout, 1, &[b'x'; PATIENT_BYTES + 1]);
        link.flush().unwrap();
        assert_eq!(arrived(&mut worker), [Kind::Stdout]);
        link.push(Kind::Display, 1, b"{}");
        link.push_patiently(Kind::Stdout, 1, b"x");
        link.flush().unwrap();
        assert_eq!(arrived(&mut worker), [Kind::Display, Kind::Stdout]);
    }
}
