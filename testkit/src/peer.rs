//! The worker's end of a runner's socket in its simplest form: it blocks. The runner's tests and bench use it, and the
//! load generator, which measures what a sandbox takes without a worker. The workers of a fleet have an end of their
//! own.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use thermae_runner::frames::{Frame, Kind, Ready, Setup};

/// A connected runner.
pub struct Peer {
    socket: UnixStream,
    received: Vec<u8>,
    patience: Duration,
}

impl Peer {
    /// Takes over a socket that a runner has connected to. No frame may take longer than `patience`.
    ///
    /// # Errors
    /// If the socket's options can't be set.
    pub fn new(socket: UnixStream, patience: Duration) -> io::Result<Self> {
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(patience))?;
        Ok(Self { socket, received: Vec::new(), patience })
    }

    /// Sends one frame.
    ///
    /// # Errors
    /// If the socket can't be written to.
    pub fn send(&mut self, frame: &Frame) -> io::Result<()> {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.socket.write_all(&bytes)
    }

    /// Waits for the runner's next frame.
    ///
    /// # Errors
    /// If the runner left, sent something that is no frame, or sent nothing for the time given to [`Peer::new`].
    pub fn frame(&mut self) -> io::Result<Frame> {
        let begun = Instant::now();
        let mut chunk = [0; 4096];
        loop {
            if let Some((frame, used)) = Frame::decode(&self.received)? {
                self.received.drain(..used);
                return Ok(frame);
            }
            if begun.elapsed() >= self.patience {
                let text = format!("the runner sent no whole frame for {:?}", self.patience);
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            match self.socket.read(&mut chunk) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the runner left")),
                Ok(n) => self.received.extend_from_slice(&chunk[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Sends the set-up and waits until the runner is ready for its first run.
    ///
    /// # Errors
    /// As for [`Peer::send`] and [`Peer::frame`], and if the runner answers with another frame, such as
    /// [`Kind::Fatal`].
    pub fn set_up(&mut self, setup: &Setup) -> io::Result<Ready> {
        self.send(&Frame::json(Kind::Setup, 0, setup)?)?;
        let frame = self.frame()?;
        match frame.kind {
            Kind::Ready => Ok(frame.parse()?),
            kind => Err(io::Error::other(format!("{kind:?}: {}", String::from_utf8_lossy(&frame.body)))),
        }
    }

    /// Closes the connection as a dying worker does: the runner ends.
    pub fn leave(&self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}
