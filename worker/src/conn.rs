//! The worker's end of a container's socket. It sends frames to the runner, hands the runner's frames to the runs that
//! they belong to, and pings the runner regularly, so that a runner that hangs is noticed.
//!
//! Whatever ends the connection (end of file, a broken frame, no answer to a ping, [`Conn::close`]) closes it
//! permanently. Then [`Conn::closed`] is cancelled, every run's stream of frames ends, and the runner exits, because it
//! sees the end of file.

mod proof;
mod running;
mod write;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ahash::HashMap;
use bytes::{Buf, Bytes, BytesMut};
use thermae_runner::frames::{self, Beside, Checkpoint, Exit, Frame, Kind, Ready, Run, Setup};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::artifacts::{InputFile, checkpoint};
use crate::bundle;

use proof::Proof;
pub(crate) use proof::Verdict;
pub(crate) use running::Running;
use write::Writer;

/// Frames of one run that may wait for it. Beyond this, the socket is not read.
const RUN_BACKLOG: usize = 256;

/// Bytes of a container's frames that may wait for its runs: the container's share of the worker's memory. Beyond this,
/// the socket is not read.
const MOST_WAITING: usize = 32 << 20;

/// Size of the read buffer, in bytes. A buffer that grew for a large frame is replaced.
const BUFFER: usize = 64 << 10;

/// Most bytes of a file in one frame.
const CHUNK: usize = 256 << 10;

/// What can go wrong with a container's connection.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Error {
    /// The connection is closed.
    #[error("the container is gone: {0}")]
    Closed(String),
    /// The runner was not ready in time.
    #[error("the runner was not ready within {} ms", .0.as_millis())]
    NotReady(Duration),
    /// A frame is too large for the container.
    #[error("a frame of {0} bytes is too large for the container")]
    TooLarge(usize),
}

/// How the runner's health is checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pings {
    /// Time between two pings.
    pub every: Duration,
    /// How long the runner may take to answer a ping.
    pub within: Duration,
}

/// A container's connection. Dropping it closes it.
pub(crate) struct Conn(Arc<Inner>);

/// A frame that waits for its run, with its share of [`MOST_WAITING`].
type Queued = (Frame, OwnedSemaphorePermit);

struct Inner {
    writer: Writer,
    runs: Mutex<HashMap<u32, mpsc::Sender<Queued>>>,
    room: Arc<Semaphore>,
    next_run: AtomicU32,
    ready: watch::Sender<Option<Ready>>,
    /// Notified of every frame, because every frame comes from the runner's main loop and shows that it lives.
    heard: watch::Sender<()>,
    /// Whether no frames are read because a run does not take its own.
    held_up: AtomicBool,
    session_closed: CancellationToken,
    proof: Proof,
    closed: CancellationToken,
    why: OnceLock<String>,
}

impl Inner {
    fn close(&self, why: impl Into<String>) {
        let _ = self.why.set(why.into());
        self.closed.cancel();
        self.writer.shut();
    }

    fn error(&self) -> Error {
        Error::Closed(self.why.get().cloned().unwrap_or_else(|| "the connection ended".into()))
    }

    fn send(&self, frame: &Frame) -> Result<(), Error> {
        if self.closed.is_cancelled() {
            return Err(self.error());
        }
        self.writer.send(frame).map_err(|e| {
            self.close(format!("write: {e}"));
            self.error()
        })
    }

    /// While no run is under way, the number of the next run. If two calls return the same number, there was no run in
    /// between.
    fn idle(&self) -> Option<u32> {
        let runs = self.runs();
        runs.is_empty().then(|| self.next_run.load(Ordering::Relaxed))
    }

    fn runs(&self) -> std::sync::MutexGuard<'_, HashMap<u32, mpsc::Sender<Queued>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Conn {
    /// Takes over a connected socket and sends the set-up. The connection's tasks run on `tasks` until it closes.
    pub(crate) fn start(stream: UnixStream, setup: &Setup, pings: Pings, tasks: &TaskTracker) -> Self {
        let stream = Arc::new(stream);
        let inner = Arc::new(Inner {
            writer: Writer::new(Arc::clone(&stream)),
            runs: Mutex::default(),
            room: Arc::new(Semaphore::new(MOST_WAITING)),
            next_run: AtomicU32::new(1),
            ready: watch::Sender::new(None),
            heard: watch::Sender::new(()),
            held_up: AtomicBool::new(false),
            session_closed: CancellationToken::new(),
            proof: Proof::default(),
            closed: CancellationToken::new(),
            why: OnceLock::new(),
        });
        match Frame::json(Kind::Setup, 0, setup) {
            Ok(frame) => drop(inner.send(&frame)),
            Err(e) => inner.close(format!("set-up: {e}")),
        }
        tasks.spawn(read(Arc::clone(&inner), stream));
        tasks.spawn({
            let inner = Arc::clone(&inner);
            async move {
                if let Some(Err(e)) = inner.closed.run_until_cancelled(inner.writer.run()).await {
                    inner.close(format!("write: {e}"));
                }
            }
        });
        tasks.spawn(ping(Arc::clone(&inner), pings));
        Self(inner)
    }

    /// Waits until the runner reports that it is ready.
    ///
    /// # Errors
    /// The connection closed first, or the runner took too long.
    pub(crate) async fn ready(&self, within: Duration) -> Result<Ready, Error> {
        let mut ready = self.0.ready.subscribe();
        let wait = async {
            tokio::select! {
                biased;
                found = ready.wait_for(Option::is_some) => found.ok().and_then(|r| r.clone()).ok_or_else(|| self.0.error()),
                () = self.0.closed.cancelled() => Err(self.0.error()),
            }
        };
        tokio::time::timeout(within, wait).await.unwrap_or(Err(Error::NotReady(within)))
    }

    fn begin(&self) -> Running {
        let (tx, frames) = mpsc::channel(RUN_BACKLOG);
        let mut runs = self.0.runs();
        let number = self.0.next_run.fetch_add(1, Ordering::Relaxed);
        runs.insert(number, tx);
        drop(runs);
        Running { inner: Arc::clone(&self.0), number, frames, ended: false, untaken: 0 }
    }

    /// Starts a run that finds the parts in these chunks of a checkpoint, and then these files. They are sent no faster
    /// than the runner reads them. `may` is called at the
    /// last moment before the code can start. If it refuses, nothing has run.
    ///
    /// # Errors
    /// The connection is closed, or the run is too large for a frame. Nothing of the code ran.
    pub(crate) async fn run<E>(
        &self,
        run: &Run,
        checkpoint: &[Bytes],
        files: &[InputFile],
        may: impl FnOnce() -> Result<(), E>,
    ) -> Result<Result<Running, E>, Error> {
        let running = self.begin();
        let number = running.number;
        let frame = Frame::json(Kind::Run, number, run).map_err(|e| Error::Closed(e.to_string()))?;
        if frame.body.len() + 16 > thermae_runner::frames::MAX_FRAME {
            return Err(Error::TooLarge(frame.body.len()));
        }
        for frame in checkpoint.iter().flat_map(|chunk| checkpoint::frames(chunk, number)) {
            let frame = frame.map_err(|e| {
                self.close("a run's checkpoint is broken");
                Error::Closed(e.to_string())
            })?;
            if self.0.closed.run_until_cancelled(self.0.writer.room()).await.is_none() {
                return Err(self.0.error());
            }
            self.0.send(&frame)?;
        }
        for file in files {
            let input = Frame::json(Kind::Input, number, &file.input).map_err(|e| Error::Closed(e.to_string()))?;
            self.0.send(&input)?;
            for chunk in file.bytes.chunks(CHUNK) {
                if self.0.closed.run_until_cancelled(self.0.writer.room()).await.is_none() {
                    return Err(self.0.error());
                }
                self.0.send(&Frame::raw(Kind::InputData, number, chunk))?;
            }
        }
        if let Err(refused) = may() {
            // The runner has the files of a run that will never begin.
            if !files.is_empty() || !checkpoint.is_empty() {
                self.close("a run was given up before it began");
            }
            return Ok(Err(refused));
        }
        self.0.send(&frame)?;
        Ok(Ok(running))
    }

    /// Asks for a checkpoint of a session. Parts and an exit arrive.
    ///
    /// # Errors
    /// The connection is closed.
    pub(crate) fn checkpoint(&self, wanted: &Checkpoint) -> Result<Running, Error> {
        let running = self.begin();
        let frame = Frame::json(Kind::Checkpoint, running.number, wanted).map_err(|e| Error::Closed(e.to_string()))?;
        self.0.send(&frame)?;
        Ok(running)
    }

    /// Starts a command or a file operation beside the program of a session.
    ///
    /// # Errors
    /// The connection is closed, or the request is too large for a frame. Nothing ran.
    pub(crate) fn beside(&self, beside: &Beside) -> Result<Running, Error> {
        let running = self.begin();
        let frame = Frame::json(Kind::Beside, running.number, beside).map_err(|e| Error::Closed(e.to_string()))?;
        if frame.body.len() + 16 > frames::MAX_FRAME {
            return Err(Error::TooLarge(frame.body.len()));
        }
        self.0.send(&frame)?;
        Ok(running)
    }

    /// Cancelled once a session of this container has ended, for whatever reason.
    pub(crate) fn session_closed(&self) -> &CancellationToken {
        &self.0.session_closed
    }

    /// Cancelled once the connection is closed.
    pub(crate) fn closed(&self) -> &CancellationToken {
        &self.0.closed
    }

    /// Why the connection closed.
    pub(crate) fn why(&self) -> String {
        self.0.why.get().cloned().unwrap_or_default()
    }

    /// Closes the connection: the runner exits, and all code in the container dies with it.
    pub(crate) fn close(&self, why: &str) {
        self.0.close(why);
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        self.0.close("no longer needed");
    }
}

/// Reads frames until the connection closes. Then every run's stream of frames ends.
async fn read(inner: Arc<Inner>, stream: Arc<UnixStream>) {
    let outcome = inner.closed.run_until_cancelled(read_frames(&inner, &stream)).await;
    match outcome {
        Some(Err(e)) => inner.close(format!("read: {e}")),
        Some(Ok(why)) => inner.close(why),
        None => {}
    }
    inner.runs().clear();
}

async fn read_frames(inner: &Inner, stream: &UnixStream) -> io::Result<String> {
    let mut buf = BytesMut::with_capacity(BUFFER);
    loop {
        while let Some((frame, used)) = Frame::decode(&buf)? {
            buf.advance(used);
            if let Some(fatal) = dispatch(inner, frame).await {
                return Ok(fatal);
            }
            // In this order: whoever then finds `held_up` false has been notified of the frame.
            inner.heard.send_replace(());
            inner.held_up.store(false, Ordering::Release);
        }
        if buf.is_empty() && buf.capacity() > BUFFER {
            buf = BytesMut::with_capacity(BUFFER);
        }
        buf.reserve(16 << 10);
        stream.readable().await?;
        match stream.try_read_buf(&mut buf) {
            Ok(0) => return Ok("the runner ended".into()),
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e),
        }
    }
}

/// Hands one frame on. If the connection must end, returns the reason.
async fn dispatch(inner: &Inner, frame: Frame) -> Option<String> {
    match frame.kind {
        Kind::Ready => match frame.parse::<Ready>() {
            Ok(ready) => {
                inner.proof.memory.store(ready.memory_bytes, Ordering::Relaxed);
                drop(inner.ready.send_replace(Some(ready)));
            }
            Err(e) => return Some(format!("the runner's ready message can't be read: {e}")),
        },
        Kind::Pong => {}
        Kind::SessionClosed => inner.session_closed.cancel(),
        Kind::Verified => match frame.parse::<frames::Proof>() {
            Ok(proof) => inner.proof.given(frame.run, proof),
            Err(e) => return Some(format!("the runner's proof can't be read: {e}")),
        },
        Kind::Fatal => return Some(format!("the runner can't go on: {}", String::from_utf8_lossy(&frame.body))),
        _ => {
            let run = inner.runs().get(&frame.run).cloned();
            if let Some(run) = run {
                let bytes = frame.body.len().min(MOST_WAITING) as u32;
                inner.held_up.store(true, Ordering::Release);
                if let Ok(place) = Arc::clone(&inner.room).acquire_many_owned(bytes).await {
                    let _ = run.send((frame, place)).await;
                }
            }
        }
    }
    None
}

/// Closes the connection if the runner says nothing for too long after a ping. The runner is not to blame while a run
/// holds up the reading of its frames.
async fn ping(inner: Arc<Inner>, pings: Pings) {
    let mut heard = inner.heard.subscribe();
    let rounds = async {
        loop {
            tokio::time::sleep(pings.every).await;
            heard.mark_unchanged();
            if inner.send(&Frame::raw(Kind::Ping, 0, Vec::new())).is_err() {
                return;
            }
            while tokio::time::timeout(pings.within, heard.changed()).await.is_err() {
                if !inner.held_up.load(Ordering::Acquire) {
                    inner.close(format!("the runner hangs: no answer within {} ms", pings.within.as_millis()));
                    return;
                }
            }
        }
    };
    inner.closed.run_until_cancelled(rounds).await;
}

/// The `Exit` in a run's last frame, with a value that can be shown.
pub(crate) fn exit_of(frame: &Frame) -> Result<Exit, serde_json::Error> {
    let mut exit: Exit = frame.parse()?;
    exit.value = exit.value.map(bundle::or_note);
    Ok(exit)
}
