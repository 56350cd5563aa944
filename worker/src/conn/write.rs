//! Writes frames: at once if the socket has room, otherwise in a task that waits for room. No frame is torn, and no
//! caller waits.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thermae_runner::frames::Frame;
use tokio::net::UnixStream;
use tokio::sync::Notify;

/// Most bytes that may wait for a runner that does not read.
const MAX_PENDING: usize = 96 << 20;

/// Above this many waiting bytes, files are held back until the runner reads.
const ENOUGH: usize = 4 << 20;

/// The writing half of a connection.
pub(super) struct Writer {
    state: Mutex<State>,
    pending: Notify,
    drained: Notify,
}

struct State {
    stream: Option<Arc<UnixStream>>,
    queue: VecDeque<Vec<u8>>,
    /// Number of bytes of the queue's first frame that were written.
    at: usize,
    bytes: usize,
}

impl Writer {
    pub(super) fn new(stream: Arc<UnixStream>) -> Self {
        let state = State { stream: Some(stream), queue: VecDeque::new(), at: 0, bytes: 0 };
        Self { state: Mutex::new(state), pending: Notify::new(), drained: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a frame after all frames that were sent before it.
    pub(super) fn send(&self, frame: &Frame) -> io::Result<()> {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        let mut state = self.state();
        if state.bytes + bytes.len() > MAX_PENDING {
            return Err(io::Error::other("the runner does not read"));
        }
        state.bytes += bytes.len();
        state.queue.push_back(bytes);
        state.flush()?;
        if !state.queue.is_empty() {
            self.pending.notify_one();
        }
        Ok(())
    }

    /// Waits until little is left to be written.
    pub(super) async fn room(&self) {
        loop {
            let drained = self.drained.notified();
            if self.state().bytes < ENOUGH {
                return;
            }
            drained.await;
        }
    }

    /// Writes what waits whenever there is room. Returns when the socket was released or fails.
    pub(super) async fn run(&self) -> io::Result<()> {
        loop {
            self.pending.notified().await;
            loop {
                let Some(stream) = self.state().stream.clone() else { return Ok(()) };
                stream.writable().await?;
                let mut state = self.state();
                state.flush()?;
                if state.bytes < ENOUGH {
                    self.drained.notify_waiters();
                }
                if state.queue.is_empty() {
                    break;
                }
            }
        }
    }

    /// Releases the socket, and drops what waits.
    pub(super) fn shut(&self) {
        let mut state = self.state();
        state.stream = None;
        state.queue.clear();
    }
}

impl State {
    fn flush(&mut self) -> io::Result<()> {
        let Some(stream) = &self.stream else { return Err(io::ErrorKind::BrokenPipe.into()) };
        while let Some(front) = self.queue.front() {
            match stream.try_write(&front[self.at..]) {
                Ok(n) => {
                    self.at += n;
                    self.bytes -= n;
                    if self.at == front.len() {
                        self.queue.pop_front();
                        self.at = 0;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}
