//! The input and output of the engine and its parts: the worker's socket, the epoll, and a buffer.

mod link;
mod token;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventFlags};

pub(crate) use link::Link;
pub(crate) use token::Token;

use crate::error::{Context, Result};
use crate::frames::{End, Exit, Kind};

/// The worker's socket, the epoll that waits for all descriptors, and a buffer for reads.
pub(crate) struct Io {
    pub(crate) link: Link,
    /// Whether the worker's socket is watched for writing too.
    link_writes: bool,
    epoll: OwnedFd,
    /// Buffer for reads from pipes and sockets, as large as a pipe's own buffer.
    pub(crate) chunk: Box<[u8]>,
    /// The exit status, once the runner is to end.
    pub(crate) over: Option<i32>,
}

impl Io {
    /// Takes the worker's socket, which never blocks from now on, and watches it.
    pub(crate) fn new(link: Link) -> Result<Self> {
        link.unblock().step("unblock the worker's socket")?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).step("epoll")?;
        let io = Self { link, link_writes: false, epoll, chunk: vec![0; 65536].into(), over: None };
        io.watch(&io.link, Token::Worker, EventFlags::IN)?;
        Ok(io)
    }

    /// Begins to watch a descriptor.
    pub(crate) fn watch(&self, fd: impl AsFd, token: Token, flags: EventFlags) -> Result<()> {
        epoll::add(&self.epoll, fd, token.data(), flags).or_else(|e| Err(e).step(format!("watch {token:?}")))
    }

    /// Watches a descriptor for something else than before. A failure means that it is closed.
    pub(crate) fn rewatch(&self, fd: impl AsFd, token: Token, flags: EventFlags) {
        let _ = epoll::modify(&self.epoll, fd, token.data(), flags);
    }

    /// Stops watching a descriptor.
    pub(crate) fn unwatch(&self, fd: impl AsFd) {
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Waits for events, at most for this long.
    pub(crate) fn wait(&self, events: &mut Vec<Event>, timeout: Option<Duration>) -> Result<()> {
        events.clear();
        let timeout = timeout.map(timespec);
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(e).step("epoll"),
        }
    }

    /// Reads what the worker has sent. If it is gone, everything that runs for it must end.
    pub(crate) fn fill(&mut self) -> Result<()> {
        match self.link.fill(&mut self.chunk) {
            Ok(true) => {}
            Ok(false) => self.over = Some(0),
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => self.over = Some(0),
            Err(e) => return Err(e).step("read from the worker"),
        }
        Ok(())
    }

    /// Ends a run with an exit that says only how it ended.
    pub(crate) fn refuse(&mut self, number: u32, end: End) {
        self.refuse_beside(number, end, false);
    }

    /// As [`Io::refuse`], and says whether the run's session lives on.
    pub(crate) fn refuse_beside(&mut self, number: u32, end: End, session_lives: bool) {
        let _ = self.link.push_json(Kind::Exit, number, &Exit::bare(end, session_lives));
    }

    /// Sends a run's [`Exit`] at once, before the runner cleans up.
    pub(crate) fn tell_exit(&mut self, number: u32, exit: &Exit) {
        if let Err(e) = self.link.push_json(Kind::Exit, number, exit) {
            crate::log(&format!("exit of run {number}: {e}"));
        }
        self.flush();
    }

    /// Sends what waits for the worker. If some of it must wait for room, the socket is watched.
    pub(crate) fn flush(&mut self) {
        if self.link.flush().is_err() {
            self.over = Some(0);
            return;
        }
        let waits = self.link.pending();
        if waits != self.link_writes {
            self.link_writes = waits;
            let flags = EventFlags::IN | if waits { EventFlags::OUT } else { EventFlags::empty() };
            self.rewatch(&self.link, Token::Worker, flags);
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: i64::from(duration.subsec_nanos()) }
}
