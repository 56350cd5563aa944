//! The worker's end of a runner's socket in its simplest form: it blocks. This crate's tests and bench use it, and the
//! load generator, which measures what a sandbox takes without a worker. The workers of a fleet have an end of their
//! own.

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::error::{Context, Error, Result};
use crate::frames::{Frame, Kind, Ready, Setup};
use crate::io::Link;

/// A connected runner.
pub struct Peer {
    link: Link,
    patience: Duration,
}

impl Peer {
    /// Takes over a socket that a runner has connected to. No frame may take longer than `patience`.
    ///
    /// # Errors
    /// If the socket's options can't be set.
    pub fn new(socket: UnixStream, patience: Duration) -> Result<Self> {
        socket.set_nonblocking(false).step("make the socket blocking")?;
        socket.set_read_timeout(Some(patience)).step("bound the socket's reads")?;
        Ok(Self { link: Link::new(socket), patience })
    }

    /// Sends one frame.
    ///
    /// # Errors
    /// If the socket can't be written to.
    pub fn send(&mut self, frame: &Frame) -> Result<()> {
        self.link.push(frame.kind, frame.run, &frame.body);
        self.link.flush().step("write to the runner")
    }

    /// Waits for the runner's next frame.
    ///
    /// # Errors
    /// If the runner left, sent something that is no frame, or sent nothing for the time given to [`Peer::new`].
    pub fn frame(&mut self) -> Result<Frame> {
        let begun = Instant::now();
        loop {
            if let Some(frame) = self.link.next().step("frame of the runner")? {
                return Ok(frame);
            }
            if begun.elapsed() >= self.patience {
                return Err(Error::Protocol(format!("the runner sent nothing for {:?}", self.patience)));
            }
            if !self.link.fill(&mut [0; 4096]).step("read from the runner")? {
                return Err(Error::Protocol("the runner left".into()));
            }
        }
    }

    /// Sends the set-up and waits until the runner is ready for its first run.
    ///
    /// # Errors
    /// As for [`Peer::send`] and [`Peer::frame`], and if the runner answers with another frame, such as
    /// [`Kind::Fatal`].
    pub fn set_up(&mut self, setup: &Setup) -> Result<Ready> {
        self.send(&Frame::json(Kind::Setup, 0, setup)?)?;
        let frame = self.frame()?;
        match frame.kind {
            Kind::Ready => Ok(frame.parse()?),
            kind => Err(Error::Protocol(format!("{kind:?}: {}", String::from_utf8_lossy(&frame.body)))),
        }
    }

    /// Closes the connection as a dying worker does: the runner ends.
    pub fn leave(&self) {
        let _ = rustix::net::shutdown(&self.link, rustix::net::Shutdown::Both);
    }
}
