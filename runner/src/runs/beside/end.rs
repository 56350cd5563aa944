//! The end of a guest: how it is judged, and what it used.

use std::collections::BTreeMap;
use std::time::Instant;

use rustix::event::epoll::EventFlags;

use super::guest::{Guest, Guests, session_cpu};
use super::output::Pumped;
use crate::frames::{CodeError, End, Exit, Usage};
use crate::io::Io;
use crate::runs::active::Cause;
use crate::runs::end::micros;
use crate::runs::occupant::Occupants;
use crate::sandboxes::{Sandbox, Sandboxes};
use crate::sys::{self, Reaped, Status};

impl Guests {
    /// Handles the end of a guest's process. What it has left in its pipes is delivered first, then its exit.
    pub(crate) fn ended(&mut self, reaped: Reaped, occupants: &mut Occupants, sandboxes: &Sandboxes, io: &mut Io) {
        let Some((&id, guest)) = self.by_id.iter_mut().find(|(_, guest)| guest.pid == reaped.pid) else {
            return;
        };
        guest.pid = 0; // The kernel may give this pid to another process from now on.
        // Read what the process said before its end.
        self.on_channel(id, EventFlags::IN, occupants, sandboxes, io);
        let Some(guest) = self.by_id.get_mut(&id) else { return };
        io.unwatch(&guest.channel);
        guest.ended = Some((reaped, Instant::now()));
        guest.outputs.end();
        // What the command has left is the session's from now on, and not what it has used before.
        let left = session_cpu(guest, sandboxes).unwrap_or_default();
        guest.session = None;
        self.cpu_before += reaped.cpu + left;
        if let Some(occupant) = occupants.by_sandbox.get_mut(&guest.sandbox) {
            occupant.cpu_before.all += left;
        }
        self.settle(id, occupants, sandboxes, io);
    }

    /// Ends a guest whose process has ended, once its output is delivered. That of a killed one is delivered only as
    /// far as there is credit.
    pub(super) fn settle(&mut self, id: u32, occupants: &mut Occupants, sandboxes: &Sandboxes, io: &mut Io) {
        let Some(guest) = self.by_id.get_mut(&id).filter(|guest| guest.ended.is_some()) else { return };
        deliver(guest, io);
        let waits = matches!(guest.cause, None | Some(Cause::Wall)) && !guest.outputs.delivered();
        if !waits {
            let end = self.judge(id, occupants, sandboxes);
            self.finish(id, end, occupants, sandboxes, io);
        }
    }

    /// Ends a guest that could not begin.
    pub(super) fn give_up(
        &mut self,
        id: u32,
        reason: String,
        occupants: &mut Occupants,
        sandboxes: &Sandboxes,
        io: &mut Io,
    ) {
        let Some(guest) = self.by_id.get(&id) else { return };
        guest.kill();
        let lives = sandboxes.get(guest.sandbox).is_some_and(Sandbox::lives);
        let end = if lives { End::NotStarted { reason } } else { occupants.ended(guest.sandbox) };
        self.finish(id, end, occupants, sandboxes, io);
    }

    /// Ends all guests in a sandbox that has ended.
    pub(in crate::runs) fn end_all(
        &mut self,
        sandbox: u32,
        occupants: &mut Occupants,
        sandboxes: &Sandboxes,
        io: &mut Io,
    ) {
        let all: Vec<u32> = self.in_sandbox(sandbox).map(|(id, _)| id).collect();
        for id in all {
            let Some(guest) = self.by_id.get_mut(&id) else { continue };
            guest.kill();
            if guest.ended.is_none() {
                guest.outputs.end();
            }
            deliver(guest, io);
            let judged = guest.ended.is_some() || guest.cause.is_some();
            let end = if judged { self.judge(id, occupants, sandboxes) } else { occupants.ended(sandbox) };
            self.finish(id, end, occupants, sandboxes, io);
        }
    }

    /// How a guest ends.
    pub(super) fn judge(&self, id: u32, occupants: &Occupants, sandboxes: &Sandboxes) -> End {
        let Some(guest) = self.by_id.get(&id) else { return End::Killed };
        let lives = sandboxes.get(guest.sandbox).is_some_and(Sandbox::lives);
        match (&guest.cause, guest.ended) {
            (Some(Cause::Output), _) => End::OutputLimit,
            (Some(Cause::Wall), _) => End::TimedOut { limit: "wall".into(), soft: false },
            (Some(Cause::Cpu), _) => End::TimedOut { limit: "cpu".into(), soft: false },
            (Some(Cause::Memory), _) => End::OutOfMemory,
            (Some(Cause::Broken(_)), _) => End::Raised,
            (Some(Cause::Killed), _) | (None, None) => End::Killed,
            (None, Some((reaped, _))) => match reaped.status {
                Status::Signaled(libc::SIGKILL) if occupants.counted.oom_kills() > guest.oom_before => End::OutOfMemory,
                Status::Signaled(libc::SIGKILL) if !lives => occupants.ended(guest.sandbox),
                status if guest.began.is_none() => {
                    End::NotStarted { reason: format!("its process ended before it began ({status:?})") }
                }
                Status::Signaled(signal) => End::Signaled { signal },
                Status::Exited(code) => match guest.done.as_ref().and_then(|done| done.failure.clone()) {
                    Some(failure) => End::Failed(failure),
                    None => End::Exited { code },
                },
            },
        }
    }

    /// Sends the exit of a guest, and forgets the guest.
    pub(super) fn finish(&mut self, id: u32, end: End, occupants: &mut Occupants, sandboxes: &Sandboxes, io: &mut Io) {
        let Some(mut guest) = self.by_id.remove(&id) else { return };
        let sandbox = guest.sandbox;
        if self.in_sandbox(sandbox).next().is_none()
            && let Some(occupant) = occupants.by_sandbox.get_mut(&sandbox)
        {
            occupant.memory = None;
        }
        let lives = sandboxes.get(sandbox).is_some_and(Sandbox::lives);
        io.tell_exit(guest.number, &guest.exit(end, lives));
    }
}

/// Delivers what an ended guest has left in its pipes, as far as there is credit.
fn deliver(guest: &mut Guest, io: &mut Io) {
    for which in 0..2 {
        let mut pumped = Pumped::Some;
        while pumped == Pumped::Some {
            pumped = guest.outputs.pump(which, guest.number, io);
        }
        if pumped == Pumped::Over {
            guest.cause.get_or_insert(Cause::Output);
        }
    }
}

impl Guest {
    fn exit(&mut self, end: End, session_lives: bool) -> Exit {
        let ended = self.ended.map_or_else(Instant::now, |(_, at)| at);
        let handed = self.handed.unwrap_or(ended);
        let began = self.began.unwrap_or(ended);
        let cpu = self.ended.map_or_else(|| sys::cpu_time(self.pid).unwrap_or_default(), |(reaped, _)| reaped.cpu);
        let error = match &self.cause {
            Some(Cause::Broken(message)) => {
                Some(CodeError { kind: "ChannelError".into(), message: message.clone(), traceback: String::new() })
            }
            _ => None,
        };
        Exit {
            error: error.filter(|_| end == End::Raised),
            value: self.done.take().and_then(|done| done.value).filter(|_| matches!(end, End::Exited { .. })),
            usage: Usage {
                wall_us: micros(ended - handed),
                paused_ms: 0,
                cpu_us: micros(cpu),
                memory_bytes: self.ended.map_or(0, |(reaped, _)| reaped.max_rss),
                files_bytes: 0,
                output_bytes: self.outputs.sent,
            },
            phases: BTreeMap::from([
                ("acquire".to_string(), micros(handed - self.arrived)),
                ("start".to_string(), micros(began.saturating_duration_since(handed))),
                ("run".to_string(), micros(ended.saturating_duration_since(began))),
            ]),
            warm: true,
            ..Exit::bare(end, session_lives)
        }
    }
}
