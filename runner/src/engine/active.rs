//! A run that goes on: its pipes, tool calls and clocks, and how its end is judged.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::pending::Pending;
use crate::channel::Message;
use crate::frames::{CodeError, End, Kind, Limits, Tool};
use crate::link::Link;
use crate::sys::Status;

/// Tool calls of a run that may be outstanding at once.
pub(super) const MAX_CALLS: usize = 1024;

/// Bytes that a run may send over its channel in all.
pub(super) const MAX_RECEIVED: u64 = 256 << 20;

/// Most bytes that are read from a pipe once its writer is dead or done. What a surviving process goes on writing does
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
    pub(super) tools: Vec<Tool>,
    /// A fresh run as it arrived, kept until its code starts: another sandbox takes it if this one dies first.
    pub(super) unstarted: Option<Box<Pending>>,
    pub(super) session: bool,
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
    /// Outstanding tool calls: from the runner's number to the job's own.
    pub(super) calls: HashMap<u32, u32>,
    pub(super) last_call: u32,
    pub(super) cause: Option<Cause>,
    /// Whether the interrupt at the end of the wall-clock time was sent.
    pub(super) interrupted: bool,
    pub(super) next_cpu_check: Instant,
    /// The container's CPU time at the first check, which is when the run could first have reached its limit.
    pub(super) container_cpu_before: Option<Duration>,
    /// OOM kills in the container before the run.
    pub(super) oom_before: u64,
    pub(super) next_memory_check: Instant,
    /// The most that its sandbox was seen to hold, in bytes.
    pub(super) memory_peak: u64,
    /// Whether the last check found more memory than the limit.
    pub(super) memory_over: bool,
    pub(super) done: Option<Message>,
}

impl Active {
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

    /// When the code is interrupted.
    pub(super) fn soft_at(&self) -> Instant {
        self.handed + Duration::from_millis(self.limits.wall_ms)
    }

    /// When the run is killed.
    pub(super) fn hard_at(&self) -> Instant {
        self.soft_at() + Duration::from_millis(self.limits.grace_ms)
    }

    /// Judges how the run ended. `status` is the kernel's report on the process; `None` if the process has said `done`
    /// and still lives. `oom` is whether the kernel killed a process for memory during the run.
    pub(super) fn judge(&mut self, status: Option<Status>, oom: bool) -> (End, Option<CodeError>) {
        let mut done = self.done.take();
        let error = done.as_mut().and_then(|d| d.error.take());
        let how = done.as_ref().and_then(|d| d.how.clone());
        let soft = || End::TimedOut { limit: "wall".into(), soft: true };
        let end = match (self.cause.take(), status) {
            (Some(Cause::Output), _) => End::OutputLimit,
            (Some(Cause::Killed), _) => End::Killed,
            (Some(Cause::Wall), _) => End::TimedOut { limit: "wall".into(), soft: false },
            (Some(Cause::Cpu), _) => End::TimedOut { limit: "cpu".into(), soft: false },
            (Some(Cause::Memory), _) => End::OutOfMemory,
            (Some(Cause::Broken(message)), _) => {
                let error = CodeError { kind: "ChannelError".into(), message, traceback: String::new() };
                return (End::Raised, Some(error));
            }
            (None, _) if self.began.is_none() => {
                End::NotStarted { reason: format!("the sandbox's process ended before the code ran ({status:?})") }
            }
            // The killed process may be any of the job's; the rest of the program went on without it.
            (None, _) if oom => End::OutOfMemory,
            (None, Some(Status::Signaled(libc::SIGXCPU))) => End::TimedOut { limit: "cpu".into(), soft: false },
            (None, Some(Status::Signaled(signal))) => End::Signaled { signal },
            // The process's own word only tells apart what the kernel reports alike: exits with status 1.
            (None, Some(Status::Exited(code))) => match how.as_deref() {
                Some("memory") if code == 1 => End::OutOfMemory,
                _ if self.interrupted => soft(),
                Some("raised" | "interrupted") if code == 1 => End::Raised,
                _ => End::Exited { code },
            },
            (None, None) => match how.as_deref() {
                Some("memory") => End::OutOfMemory,
                _ if self.interrupted => soft(),
                Some("raised" | "interrupted") => End::Raised,
                _ => End::Exited { code: done.as_ref().and_then(|d| d.code).unwrap_or(0) & 0xff },
            },
        };
        (end, error)
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
