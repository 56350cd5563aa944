//! What runs beside sessions' programs: commands and file operations.
//!
//! ```text
//! Beside ─▶ native zygote ─ fork ─▶ the guest joins the sandbox, is told its work ─▶ its end ─▶ its last output, Exit
//! ```
//!
//! A guest is one more process of the sandbox. It is forked into the sandbox's pid namespace, so it can't outlive the
//! sandbox, and it is the runner's own child, so the kernel reports its end to the runner. The session's process knows
//! nothing of it.

mod end;
mod guest;
mod input;
mod output;

use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustix::process::Signal;

use super::active::Cause;
use super::memory::MemoryWatch;
use super::occupant::Occupants;
use crate::channel::Got;
use crate::frames::{Beside, End, Frame, Kind, Work};
use crate::io::{Io, Token};
use crate::languages::Child;
use crate::sandboxes::{Sandbox, Sandboxes};
pub(crate) use guest::Guests;
use guest::{BEGIN_TIMEOUT, Guest};
use output::Pumped;

/// Most signals that wait until a guest begins.
const MOST_EARLY: usize = 16;

/// Most bytes that a guest may send over its channel.
const MAX_RECEIVED: u64 = 16 << 20;

impl Guests {
    /// Takes a request for a guest, and asks for its process.
    pub(super) fn accept(
        &mut self,
        number: u32,
        frame: &Frame,
        occupants: &mut Occupants,
        sandboxes: &mut Sandboxes,
        io: &mut Io,
    ) {
        if let Err(end) = self.begin(number, frame, occupants, sandboxes, io) {
            let lives = !matches!(end, End::NoSession);
            io.refuse_beside(number, end, lives);
        }
    }

    /// # Errors
    /// How the run ends if it can't begin.
    fn begin(
        &mut self,
        number: u32,
        frame: &Frame,
        occupants: &mut Occupants,
        sandboxes: &mut Sandboxes,
        io: &mut Io,
    ) -> Result<(), End> {
        let refused = |reason: String| End::NotStarted { reason };
        let asked: Beside = frame.parse().map_err(|e| refused(format!("the request can't be read: {e}")))?;
        if !sandboxes.nested() {
            return Err(refused("commands beside a session need an inner wall, and this machine allows none".into()));
        }
        if asked.wall_ms == 0 || asked.output_bytes == Some(0) || asked.window == 0 {
            return Err(refused("a limit or the window is zero".into()));
        }
        if asked.window > Beside::MAX_WINDOW {
            return Err(refused(format!("a window of {} bytes is too large", asked.window)));
        }
        let sandbox = occupants.sessions.get(&asked.session).copied().ok_or(End::NoSession)?;
        if !sandboxes.get(sandbox).is_some_and(Sandbox::lives) {
            return Err(End::NoSession);
        }
        if self.in_sandbox(sandbox).count() >= Beside::MOST {
            return Err(refused(format!("more than {} commands at once", Beside::MOST)));
        }
        let wall = Duration::from_millis(asked.wall_ms.min(self.wall_ms));
        let opened = Guest::open(number, sandbox, asked, wall, occupants.counted.oom_kills());
        let (guest, child_end) = opened.map_err(|e| refused(format!("make its pipes: {e}")))?;
        let id = sandboxes.join(sandbox, &child_end).map_err(refused)?;
        io.watch(&guest.channel, Token::Channel(id), EventFlags::IN).map_err(|e| refused(e.to_string()))?;
        self.by_id.insert(id, guest);
        let now = Instant::now();
        if let Some(occupant) = occupants.by_sandbox.get_mut(&sandbox) {
            occupant.memory.get_or_insert_with(|| MemoryWatch::new(now));
            // While the program is stopped, its watch looks rarely.
            occupant.run.iter_mut().for_each(|run| run.memory.next = now);
        }
        Ok(())
    }

    /// Takes the process that a zygote has forked for a guest, and tells it what to do.
    pub(crate) fn on_forked(
        &mut self,
        id: u32,
        forked: Result<Child, String>,
        occupants: &mut Occupants,
        sandboxes: &Sandboxes,
        io: &mut Io,
    ) {
        let Some(guest) = self.by_id.get_mut(&id) else {
            if let Ok(child) = forked {
                child.kill();
            }
            return;
        };
        let told = forked.and_then(|child| {
            guest.adopt(child);
            let native = sandboxes.zygotes.native().ok_or("its zygote is gone")?;
            sandboxes.bound(guest.pid, native)?;
            tell(guest).map_err(|e| e.to_string())
        });
        match told {
            Ok(()) => {
                guest.handed = Some(Instant::now());
                if guest.channel.pending() {
                    io.rewatch(&guest.channel, Token::Channel(id), EventFlags::IN | EventFlags::OUT);
                }
                guest.outputs.watch(id, self.congested, io);
                self.feed(id, io);
            }
            Err(reason) => self.give_up(id, reason, occupants, sandboxes, io),
        }
    }

    /// Takes what a guest has sent, and goes on sending what waits for it.
    pub(super) fn on_channel(
        &mut self,
        id: u32,
        flags: EventFlags,
        occupants: &mut Occupants,
        sandboxes: &Sandboxes,
        io: &mut Io,
    ) {
        let Some(guest) = self.by_id.get_mut(&id) else { return };
        if flags.contains(EventFlags::OUT) && (guest.channel.flush().is_err() || !guest.channel.pending()) {
            io.rewatch(&guest.channel, Token::Channel(id), EventFlags::IN);
        }
        let closed = !matches!(guest.channel.fill(&mut io.chunk), Ok(Got::Empty));
        loop {
            let message = match guest.channel.next() {
                _ if guest.channel.received > MAX_RECEIVED => Err("too much on the channel".into()),
                next => next,
            };
            match message {
                Ok(Some(message)) => match message.op.as_str() {
                    "started" if guest.began.is_none() => {
                        guest.began = Some(Instant::now());
                        io.link.push(Kind::Started, guest.number, &[]);
                        for signal in std::mem::take(&mut guest.early) {
                            guest.signal(signal);
                        }
                    }
                    "failed" if guest.began.is_none() => {
                        let reason = format!("join the sandbox: {}", message.reason.unwrap_or_default());
                        return self.give_up(id, reason, occupants, sandboxes, io);
                    }
                    "done" if guest.done.is_none() => guest.done = Some(message),
                    _ => {}
                },
                Ok(None) => break,
                Err(text) => {
                    io.unwatch(&guest.channel);
                    guest.stop(Cause::Broken(text));
                    return;
                }
            }
        }
        // A command has no channel. Its end is told by the kernel.
        if closed {
            io.unwatch(&guest.channel);
        }
    }

    /// Moves a guest's output to the worker.
    pub(super) fn on_output(
        &mut self,
        id: u32,
        which: usize,
        occupants: &mut Occupants,
        sandboxes: &Sandboxes,
        io: &mut Io,
    ) {
        let congested = self.congested;
        let Some(guest) = self.by_id.get_mut(&id).filter(|_| !congested) else { return };
        if guest.outputs.pump(which, guest.number, io) == Pumped::Over {
            guest.stop(Cause::Output);
        }
        guest.outputs.watch(id, congested, io);
        self.settle(id, occupants, sandboxes, io);
    }

    /// Goes on feeding a guest's standard input.
    pub(super) fn feed(&mut self, id: u32, io: &mut Io) {
        let Some(guest) = self.by_id.get_mut(&id) else { return };
        if guest.ended.is_none()
            && let Some(credit) = guest.input.feed(id, io)
        {
            let _ = io.link.push_json(Kind::Credit, guest.number, &credit);
        }
    }

    /// Takes a part of a guest's standard input; `None` is its end.
    pub(crate) fn on_input(
        &mut self,
        number: u32,
        bytes: Option<&[u8]>,
        occupants: &mut Occupants,
        sandboxes: &Sandboxes,
        io: &mut Io,
    ) {
        let Some(id) = self.of_run(number) else { return };
        let Some(guest) = self.by_id.get_mut(&id) else { return };
        match bytes.map(|bytes| guest.input.add(bytes)) {
            None => guest.input.complete(),
            Some(Ok(())) => {}
            Some(Err(text)) => return self.stop(id, Cause::Broken(text), occupants, sandboxes, io),
        }
        if guest.handed.is_some() {
            self.feed(id, io);
        }
    }

    /// Allows a guest this many bytes more of output.
    pub(crate) fn on_credit(
        &mut self,
        number: u32,
        bytes: u64,
        occupants: &mut Occupants,
        sandboxes: &Sandboxes,
        io: &mut Io,
    ) {
        let Some(id) = self.of_run(number) else { return };
        let Some(guest) = self.by_id.get_mut(&id) else { return };
        guest.outputs.allow(bytes);
        if guest.handed.is_some() {
            guest.outputs.watch(id, self.congested, io);
            self.settle(id, occupants, sandboxes, io);
        }
    }

    /// Sends a signal to a guest's process group, once that exists. A number that stands for no signal does nothing.
    pub(crate) fn signal(&mut self, number: u32, signal: i32) {
        let guest = self.of_run(number).and_then(|id| self.by_id.get_mut(&id));
        if let (Some(guest), Some(signal)) = (guest, Signal::from_named_raw(signal)) {
            if guest.began.is_some() {
                guest.signal(signal);
            } else if guest.early.len() < MOST_EARLY {
                guest.early.push(signal);
            }
        }
    }

    /// Kills a guest; `false` if that run is none.
    pub(super) fn kill(&mut self, number: u32, occupants: &mut Occupants, sandboxes: &Sandboxes, io: &mut Io) -> bool {
        let Some(id) = self.of_run(number) else { return false };
        let Some(guest) = self.by_id.get_mut(&id) else { return false };
        if guest.ended.is_some() {
            // Nobody takes its last output any more.
            let end = self.judge(id, occupants, sandboxes);
            self.finish(id, end, occupants, sandboxes, io);
            return true;
        }
        self.stop(id, Cause::Killed, occupants, sandboxes, io);
        true
    }

    /// Kills a guest. Its exit follows when the kernel reports its end.
    fn stop(&mut self, id: u32, cause: Cause, occupants: &mut Occupants, sandboxes: &Sandboxes, io: &mut Io) {
        let Some(guest) = self.by_id.get_mut(&id) else { return };
        guest.stop(cause);
        if guest.handed.is_none() {
            // It has not been told what to do. If its process comes, it is killed.
            let end = self.judge(id, occupants, sandboxes);
            self.finish(id, end, occupants, sandboxes, io);
        }
    }

    /// When [`Guests::tick`] has something to do next.
    pub(super) fn due(&self, occupants: &Occupants) -> Option<Instant> {
        let memory = occupants.by_sandbox.values().filter(|occupant| occupant.run.is_none());
        let memory = memory.filter_map(|occupant| Some(occupant.memory.as_ref()?.next));
        self.by_id.values().filter_map(Guest::due).chain(memory).min()
    }

    /// Kills the guests that have taken too long.
    pub(super) fn tick(&mut self, now: Instant, occupants: &mut Occupants, sandboxes: &Sandboxes, io: &mut Io) {
        let late = |guest: &Guest| guest.due().is_some_and(|due| now >= due);
        let late: Vec<u32> = self.by_id.iter().filter(|(_, guest)| late(guest)).map(|(id, _)| *id).collect();
        for id in late {
            let Some(guest) = self.by_id.get_mut(&id) else { continue };
            if guest.began.is_some() {
                guest.stop(Cause::Wall);
            } else {
                let reason = format!("no progress in {} s", BEGIN_TIMEOUT.as_secs());
                self.give_up(id, reason, occupants, sandboxes, io);
            }
        }
    }

    /// Stops reading the guests' outputs while too much waits for the worker.
    pub(super) fn heed_congestion(&mut self, congested: bool, io: &Io) {
        self.congested = congested;
        for (id, guest) in self.by_id.iter_mut().filter(|(_, guest)| guest.handed.is_some()) {
            guest.outputs.watch(*id, congested, io);
        }
    }
}

/// Tells a guest what to do.
fn tell(guest: &mut Guest) -> std::io::Result<()> {
    #[derive(serde::Serialize)]
    struct Order<'a> {
        op: &'a str,
        work: &'a Work,
    }
    let Some((work, streams)) = guest.order.take() else { return Ok(()) };
    guest.channel.send(&serde_json::to_vec(&Order { op: "beside", work: &work })?, streams)
}
