//! Standard input of what runs beside a session's program.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};

use rustix::event::epoll::EventFlags;

use crate::io::{Io, Token};

/// Bytes on their way into the pipe. The worker sends no more than the window allows until it gets credit.
pub(super) struct Input {
    /// `None` once all is written, or nobody reads it any more.
    pipe: Option<File>,
    waiting: VecDeque<u8>,
    /// Whether the worker has sent the end.
    complete: bool,
    /// Bytes that have left, and for which the worker has no credit yet.
    owed: usize,
    window: usize,
    watched: bool,
}

impl Input {
    pub(super) fn new(pipe: File, window: usize) -> Self {
        Self { pipe: Some(pipe), waiting: VecDeque::new(), complete: false, owed: 0, window, watched: false }
    }

    /// Takes bytes of the worker.
    ///
    /// # Errors
    /// Which rule the worker has broken.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Result<(), String> {
        if self.complete {
            return Err("standard input goes on after its end".into());
        }
        if self.waiting.len() + self.owed + bytes.len() > self.window {
            return Err(format!("more standard input than its window of {} bytes allows", self.window));
        }
        self.waiting.extend(bytes);
        Ok(())
    }

    /// Notes that nothing follows.
    pub(super) fn complete(&mut self) {
        self.complete = true;
    }

    /// Writes what the pipe takes. Returns for how many bytes the worker gets credit now. `id` is the guest's number.
    pub(super) fn feed(&mut self, id: u32, io: &Io) -> Option<usize> {
        while let Some(pipe) = &mut self.pipe
            && !self.waiting.is_empty()
        {
            match pipe.write(self.waiting.as_slices().0) {
                Ok(n) => {
                    self.waiting.drain(..n);
                    self.owed += n;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.pipe = None,
            }
        }
        if self.pipe.is_none() {
            // Nobody reads it. It is dropped, so that the worker can go on to its end.
            self.owed += self.waiting.len();
            self.waiting.clear();
        }
        match &self.pipe {
            Some(_) if self.waiting.is_empty() && self.complete => self.pipe = None,
            Some(pipe) if self.waiting.is_empty() == self.watched => {
                self.watched = !self.watched;
                if self.watched {
                    let _ = io.watch(pipe, Token::Stdin(id), EventFlags::OUT);
                } else {
                    io.unwatch(pipe);
                }
            }
            _ => {}
        }
        (self.owed * 2 >= self.window && !self.complete).then(|| std::mem::take(&mut self.owed))
    }
}
