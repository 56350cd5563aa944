//! A run that goes on, and its pipes.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;

use super::clocks::FIRST_CPU_CHECK;
use super::memory::MemoryWatch;
use super::pending::Pending;
use super::waits::Waits;
use crate::channel::Message;
use crate::frames::{Kind, Limits};
use crate::io::{Io, Link, Token};
use crate::sys;

/// Tool calls of a run that may be outstanding at once.
pub(super) const MAX_CALLS: usize = 1024;

/// Bytes that a run may send over its channel in all.
pub(super) const MAX_RECEIVED: u64 = 256 << 20;

/// Most bytes that are read from a pipe once the program is dead or done. What other processes go on writing to it does
/// not belong to the run.
const LAST_DRAIN: usize = 2 << 20;

/// Why the runner itself ended a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cause {
    Output,
    Killed,
    Wall,
    Cpu,
    Memory,
    /// The job broke the channel's rules; in words.
    Broken(String),
}

/// An output pipe of the job, and the kind of frame that carries what it says. The pipe is `None` once it is closed.
pub(super) struct Output {
    pub(super) kind: Kind,
    pub(super) pipe: Option<std::fs::File>,
}

/// What a read of an output found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pumped {
    Some(usize),
    Nothing,
    Closed,
    /// The limit is reached; what fits was delivered.
    Over,
}

/// A run that goes on.
pub(super) struct Active {
    pub(super) number: u32,
    pub(super) limits: Limits,
    /// The tools that it may call by their names, and whether the code gets answers as text.
    pub(super) tools: HashMap<String, bool>,
    /// A fresh run as it arrived, kept until its code starts: another sandbox takes it if this one dies first.
    pub(super) unstarted: Option<Box<Pending>>,
    pub(super) session: bool,
    /// Whether its session existed before.
    pub(super) session_existed: bool,
    /// Whether a sandbox was ready when it arrived.
    pub(super) warm: bool,
    /// When the worker's frame was read.
    pub(super) arrived: Instant,
    /// When the code was handed to its process.
    pub(super) handed: Instant,
    /// When the process said that the code starts.
    pub(super) began: Option<Instant>,
    pub(super) outputs: [Output; 2],
    pub(super) output_bytes: u64,
    /// The pipe, the bytes to write to it, and how many of them were written.
    pub(super) stdin: Option<(std::fs::File, Vec<u8>, usize)>,
    /// Outstanding tool calls: from the runner's number to the job's own, and whether the answer is text.
    pub(super) calls: HashMap<u32, (u32, bool)>,
    pub(super) last_call: u32,
    /// Bytes of answers to calls that came, and for which the worker has got no credit.
    pub(super) untaken: u64,
    pub(super) cause: Option<Cause>,
    /// When it was interrupted, at the end of its wall-clock time or because it was cancelled.
    pub(super) interrupted: Option<Instant>,
    /// Whether it was interrupted because it was cancelled.
    pub(super) cancelled: bool,
    pub(super) waits: Waits,
    pub(super) next_cpu_check: Instant,
    /// The most CPU time that it was seen to have used.
    pub(super) cpu: Duration,
    /// What its container had used at the first look.
    pub(super) container_cpu_before: Option<Duration>,
    /// OOM kills in the container before the run.
    pub(super) oom_before: u64,
    pub(super) memory: MemoryWatch,
    pub(super) done: Option<Message>,
}

/// The runner's ends of a run's pipes.
pub(super) struct Pipes {
    stdout: std::fs::File,
    stderr: std::fs::File,
    /// As [`Active::stdin`].
    stdin: Option<(std::fs::File, Vec<u8>, usize)>,
}

impl Pipes {
    /// Makes the pipes for a run with this standard input. Also returns the job's ends: standard input, output and
    /// error.
    pub(super) fn open(stdin: Option<&str>) -> io::Result<(Self, Vec<OwnedFd>)> {
        let (stdout, out_end) = output_pipe()?;
        let (stderr, err_end) = output_pipe()?;
        let (in_end, stdin) = match stdin.filter(|text| !text.is_empty()) {
            // Opened for this run alone: locks and flags belong to the open file, and the next run would find them.
            None => (sys::null_device()?, None),
            Some(text) => {
                let (read, write) = input_pipe()?;
                (read, Some((write, text.to_owned().into_bytes(), 0)))
            }
        };
        Ok((Self { stdout, stderr, stdin }, vec![in_end, out_end, err_end]))
    }

    /// Begins to watch the outputs of the run in that sandbox.
    pub(super) fn watch(&self, id: u32, flags: EventFlags, io: &Io) {
        let _ = io.watch(&self.stdout, Token::Stdout(id), flags);
        let _ = io.watch(&self.stderr, Token::Stderr(id), flags);
    }
}

impl Active {
    /// A run that is handed to its process now. `warm` is whether a sandbox was ready, `oom_before` the number of OOM
    /// kills so far.
    pub(super) fn new(pending: &Pending, pipes: Pipes, warm: bool, oom_before: u64) -> Self {
        let handed = Instant::now();
        let limits = pending.run.limits;
        Self {
            number: pending.number,
            limits,
            tools: pending.run.tools.iter().map(|tool| (tool.name.clone(), tool.raw)).collect(),
            unstarted: None,
            session: pending.session().is_some(),
            session_existed: false,
            warm,
            arrived: pending.arrived,
            handed,
            began: None,
            outputs: [
                Output { kind: Kind::Stdout, pipe: Some(pipes.stdout) },
                Output { kind: Kind::Stderr, pipe: Some(pipes.stderr) },
            ],
            output_bytes: 0,
            stdin: pipes.stdin,
            calls: HashMap::new(),
            last_call: 0,
            untaken: 0,
            cause: None,
            interrupted: None,
            cancelled: false,
            waits: Waits::new(&limits, handed),
            next_cpu_check: handed + FIRST_CPU_CHECK.min(Duration::from_millis(limits.cpu_ms)),
            cpu: Duration::ZERO,
            container_cpu_before: None,
            oom_before,
            memory: MemoryWatch::new(handed),
            done: None,
        }
    }

    /// Moves what a pipe holds to the worker, at most one `chunk` of it.
    pub(super) fn pump(&mut self, which: usize, link: &mut Link, chunk: &mut [u8]) -> Pumped {
        let output = &mut self.outputs[which];
        let Some(pipe) = &mut output.pipe else { return Pumped::Closed };
        match pipe.read(chunk) {
            Ok(0) => {
                output.pipe = None;
                Pumped::Closed
            }
            Ok(n) => {
                let room = self.limits.output_bytes.saturating_sub(self.output_bytes);
                let fits = room.min(n as u64) as usize;
                if fits > 0 {
                    link.push(output.kind, self.number, &chunk[..fits]);
                }
                self.output_bytes += fits as u64;
                if fits < n { Pumped::Over } else { Pumped::Some(n) }
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Pumped::Nothing,
            Err(_) => {
                output.pipe = None;
                Pumped::Closed
            }
        }
    }

    /// Empties both pipes of what was written before the end.
    pub(super) fn drain(&mut self, link: &mut Link, chunk: &mut [u8]) {
        for which in 0..2 {
            let mut left = LAST_DRAIN;
            loop {
                match self.pump(which, link, chunk) {
                    Pumped::Some(n) if n < left => left -= n,
                    Pumped::Over => {
                        self.cause.get_or_insert(Cause::Output);
                        break;
                    }
                    _ => break,
                }
            }
        }
    }

    /// Feeds standard input; `false` once there is nothing more to feed.
    pub(super) fn feed(&mut self) -> bool {
        let Some((pipe, bytes, at)) = &mut self.stdin else { return false };
        while *at < bytes.len() {
            match pipe.write(&bytes[*at..]) {
                Ok(n) => *at += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return true,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.stdin = None;
        false
    }
}

/// A pipe (reader, writer) whose reading end never blocks the runner.
pub(super) fn output_pipe() -> io::Result<(std::fs::File, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&read, true)?;
    Ok((read.into(), write))
}

/// A pipe (reader, writer) whose writing end never blocks the runner.
pub(super) fn input_pipe() -> io::Result<(OwnedFd, std::fs::File)> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&write, true)?;
    Ok((read, write.into()))
}
