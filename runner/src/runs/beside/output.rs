//! Standard output and standard error of what runs beside a session's program.

use std::fs::File;
use std::io::Read;

use rustix::event::epoll::EventFlags;

use crate::frames::Kind;
use crate::io::{Io, Token};

/// What a read of an output found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pumped {
    Some,
    Nothing,
    /// The limit is reached; what fits was delivered.
    Over,
}

/// The outputs.
pub(super) struct Outputs {
    /// `None` once it is closed.
    pipes: [Option<File>; 2],
    /// How many bytes more the worker takes.
    credit: u64,
    /// How many bytes more are allowed at all.
    room: u64,
    /// How many bytes were sent.
    pub(super) sent: u64,
    /// Once the process has ended: how many bytes of each pipe still belong to it. What others write later doesn't.
    left: Option<[u64; 2]>,
    watched: bool,
}

impl Outputs {
    pub(super) fn new(stdout: File, stderr: File, window: u32, room: Option<u64>) -> Self {
        let pipes = [Some(stdout), Some(stderr)];
        let room = room.unwrap_or(u64::MAX);
        Self { pipes, credit: window.into(), room, sent: 0, left: None, watched: false }
    }

    /// Allows this many bytes more.
    pub(super) fn allow(&mut self, bytes: u64) {
        self.credit = self.credit.saturating_add(bytes);
    }

    /// Moves what a pipe holds to the worker, as far as there is credit, and at most a chunk.
    pub(super) fn pump(&mut self, which: usize, number: u32, io: &mut Io) -> Pumped {
        let Some(pipe) = &mut self.pipes[which] else { return Pumped::Nothing };
        let left = self.left.map_or(u64::MAX, |left| left[which]);
        let most = self.credit.min(left).min(io.chunk.len() as u64) as usize;
        if most == 0 {
            return Pumped::Nothing;
        }
        let got = match pipe.read(&mut io.chunk[..most]) {
            Ok(n) if n > 0 => n as u64,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => return Pumped::Nothing,
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                // Others in the sandbox may have read what was left.
                self.left.iter_mut().for_each(|left| left[which] = 0);
                return Pumped::Nothing;
            }
            _ => {
                self.pipes[which] = None;
                return Pumped::Nothing;
            }
        };
        let fits = got.min(self.room);
        if fits > 0 {
            let kind = [Kind::Stdout, Kind::Stderr][which];
            io.link.push(kind, number, &io.chunk[..fits as usize]);
        }
        (self.credit, self.room, self.sent) = (self.credit - fits, self.room - fits, self.sent + fits);
        if let Some(left) = &mut self.left {
            left[which] -= got;
        }
        if fits < got { Pumped::Over } else { Pumped::Some }
    }

    /// Notes that the process has ended: only what the pipes hold now is still delivered.
    pub(super) fn end(&mut self) {
        let held = |pipe: &Option<File>| pipe.as_ref().and_then(|pipe| rustix::io::ioctl_fionread(pipe).ok());
        self.left = Some([0, 1].map(|which| held(&self.pipes[which]).unwrap_or(0)));
    }

    /// After the end: whether everything is delivered.
    pub(super) fn delivered(&self) -> bool {
        let left = self.left.unwrap_or([u64::MAX; 2]);
        self.pipes.iter().zip(left).all(|(pipe, left)| pipe.is_none() || left == 0)
    }

    /// Watches the pipes as long as they may be read. Otherwise they are not watched at all: a closed pipe would wake
    /// the loop again and again. `id` is the guest's number.
    pub(super) fn watch(&mut self, id: u32, congested: bool, io: &Io) {
        let wanted = self.credit > 0 && !congested;
        if wanted == self.watched {
            return;
        }
        self.watched = wanted;
        for (pipe, token) in self.pipes.iter().zip([Token::Stdout(id), Token::Stderr(id)]) {
            match pipe {
                Some(pipe) if wanted => drop(io.watch(pipe, token, EventFlags::IN)),
                Some(pipe) => io.unwatch(pipe),
                None => {}
            }
        }
    }
}
