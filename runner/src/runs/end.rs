//! The end of a run: how it is judged, and what it used.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::active::{Active, Cause};
use super::baseline::Baseline;
use crate::frames::{CodeError, End, Exit, LONGEST_NOTE, MOST_NOTES, Usage};
use crate::sandboxes::Sandbox;
use crate::sys::{Reaped, Status};

impl Active {
    /// The exit of a run that ended at `now`. `reaped` is the kernel's report on its process; `None` if the process has
    /// said `done` and still lives. `oom` is whether the kernel killed a process for memory during the run. `cpu` is
    /// what [`Active::used_cpu`] says at the end.
    pub(super) fn exit(
        &mut self,
        now: Instant,
        reaped: Option<Reaped>,
        oom: bool,
        sandbox: &Sandbox,
        cpu: Baseline,
    ) -> Exit {
        let session_lives = self.leaves_session(reaped.as_ref());
        let value = self.done.as_mut().and_then(|done| done.value.take());
        let notes = self.done.as_mut().map(|done| bounded(std::mem::take(&mut done.notes))).unwrap_or_default();
        let (end, error) = self.judge(reaped.map(|r| r.status), oom);
        let wall = now - self.handed;
        // What a session's earlier programs have left goes on while this one waits.
        let busy = if self.session { cpu.own } else { cpu.all };
        self.memory.finish(sandbox, reaped.as_ref());
        let usage = Usage {
            wall_us: micros(wall),
            paused_ms: u64::try_from(self.waits.paused(now, wall, busy).as_millis()).unwrap_or(u64::MAX),
            cpu_us: micros(cpu.all),
            memory_bytes: self.memory.peak,
            files_bytes: self.memory.files,
            output_bytes: self.output_bytes,
        };
        let began = self.began.unwrap_or(now);
        let phases = BTreeMap::from([
            ("acquire".to_string(), micros(self.handed - self.arrived)),
            ("start".to_string(), micros(began - self.handed)),
            ("run".to_string(), micros(now - began)),
            ("collect".to_string(), micros(now.elapsed())),
        ]);
        let value = value.filter(|_| matches!(end, End::Exited { .. }));
        Exit { end, error, value, usage, phases, warm: self.warm, session_lives, left_out: Default::default(), notes }
    }

    /// Whether the run's session goes on after it. `reaped` is as in [`Active::exit`].
    pub(super) fn leaves_session(&self, reaped: Option<&Reaped>) -> bool {
        self.session && reaped.is_none() && !self.done.as_ref().is_some_and(|done| done.over)
    }

    /// Judges how the run ended. `status` is the kernel's report on the process, as in [`Active::exit`].
    fn judge(&mut self, status: Option<Status>, oom: bool) -> (End, Option<CodeError>) {
        let mut done = self.done.take();
        let error = done.as_mut().and_then(|d| d.error.take());
        let how = done.as_ref().and_then(|d| d.how.clone());
        let cancelled = self.cancelled;
        let soft = || {
            if cancelled { End::Interrupted } else { End::TimedOut { limit: "wall".into(), soft: true } }
        };
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
            (None, _) if self.began.is_none() && self.session_existed => End::NoSession,
            (None, _) if self.began.is_none() => {
                End::NotStarted { reason: format!("the sandbox's process ended before the code ran ({status:?})") }
            }
            // The kernel may have killed any process of the job, and the rest of the program went on without it.
            (None, _) if oom => End::OutOfMemory,
            (None, Some(Status::Signaled(libc::SIGXCPU))) => End::TimedOut { limit: "cpu".into(), soft: false },
            (None, Some(Status::Signaled(libc::SIGINT))) if self.interrupted.is_some() => soft(),
            (None, Some(Status::Signaled(signal))) => End::Signaled { signal },
            // The kernel reports several ends alike, as an exit with status 1. Only among these, the process's own word
            // decides.
            (None, Some(Status::Exited(code))) => match how.as_deref() {
                Some("memory") if code == 1 => End::OutOfMemory,
                _ if self.interrupted.is_some() => soft(),
                Some("raised" | "interrupted") if code == 1 => End::Raised,
                _ => End::Exited { code },
            },
            (None, None) => match how.as_deref() {
                Some("memory") => End::OutOfMemory,
                _ if self.interrupted.is_some() => soft(),
                Some("raised" | "interrupted") => End::Raised,
                _ => End::Exited { code: done.as_ref().and_then(|d| d.code).unwrap_or(0) & 0xff },
            },
        };
        (end, error)
    }
}

/// The notes of a process, which is not trusted, within their bounds.
fn bounded(mut notes: Vec<String>) -> Vec<String> {
    notes.truncate(MOST_NOTES);
    for note in &mut notes {
        note.truncate(note.floor_char_boundary(LONGEST_NOTE));
    }
    notes
}

pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
