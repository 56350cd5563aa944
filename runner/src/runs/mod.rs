//! Runs: those that wait for a sandbox, those that go on, the sessions that they belong to, and the files that they
//! leave. Also what runs beside sessions' programs.

mod active;
mod baseline;
mod beside;
mod clocks;
mod collect;
mod dispatch;
mod end;
mod memory;
mod messages;
mod occupant;
mod pause;
mod pending;
mod waits;

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;

use crate::cpu::CpuCounter;
use crate::files::Inbox;
use crate::frames::{Checkpoint, End, Kind, Setup};
use crate::group::MemoryGroup;
use crate::io::{Io, Token};
use crate::sandboxes::{DEATH_TIMEOUT, Demand, Sandboxes, Stage};
use crate::sys::Reaped;
use active::{Active, Cause, Pumped};
use beside::Guests;
use collect::{Collections, Ended};
use occupant::Occupants;
use pause::Change;
use pending::{MOST_LOST, Pending};
use waits::Halt;

/// The runs of a container.
pub(crate) struct Runs {
    setup: Rc<Setup>,
    pending: VecDeque<Pending>,
    /// Input files of runs that have not arrived yet.
    pub(crate) inbox: Inbox,
    /// What uses the sandboxes.
    pub(crate) occupants: Occupants,
    /// Sandboxes of runs that go on, by the runs' numbers.
    going: HashMap<u32, u32>,
    /// What runs beside sessions' programs.
    pub(crate) guests: Guests,
    collections: Collections,
    /// Counts the container's CPU time.
    cpu: Option<CpuCounter>,
    /// Whether jobs' outputs are not read, because too much waits for the worker.
    congested: bool,
}

impl Runs {
    pub(crate) fn new(setup: Rc<Setup>, group: Option<MemoryGroup>, cpu: Option<CpuCounter>) -> Self {
        Self {
            pending: VecDeque::new(),
            inbox: Inbox::default(),
            occupants: Occupants::new(group),
            going: HashMap::new(),
            guests: Guests::new(setup.ceiling.wall_ms),
            collections: Collections::new(setup.artifacts),
            cpu,
            congested: false,
            setup,
        }
    }

    /// Notes how much memory the container holds before the first run.
    pub(crate) fn set_memory_baseline(&mut self) {
        self.occupants.counted.set_baseline();
    }

    /// Whether a run waits, something runs beside a session's program, or files are being collected. (What a run uses
    /// shows in its sandbox's stage.)
    pub(crate) fn busy(&self) -> bool {
        !self.pending.is_empty() || !self.guests.is_empty() || self.collections.any()
    }

    /// What the runs need of the sandboxes.
    pub(crate) fn demand(&self, sandboxes: &Sandboxes) -> Demand {
        let waiting = vec![0; sandboxes.zygotes.flavors().count()];
        let mut demand = Demand { waiting, any_waits: !self.pending.is_empty(), head_start: false };
        for pending in self.pending.iter().filter(|pending| self.needs_sandbox(pending)) {
            demand.waiting[sandboxes.zygotes.or_smallest(pending.flavor).0] += 1;
        }
        let now = Instant::now();
        demand.head_start = self.active().any(|(_, run)| run.in_head_start(now));
        demand
    }

    /// The runs that go on, with the numbers of their sandboxes.
    fn active(&self) -> impl Iterator<Item = (u32, &Active)> {
        self.occupants.by_sandbox.iter().filter_map(|(id, occupant)| Some((*id, occupant.run.as_ref()?)))
    }

    /// Whether a run of that number waits or goes on.
    fn knows(&self, number: u32) -> bool {
        let waits = || self.pending.iter().any(|pending| pending.number == number);
        self.going.contains_key(&number) || waits() || self.guests.of_run(number).is_some()
    }

    fn run_mut(&mut self, id: u32) -> Option<&mut Active> {
        self.occupants.by_sandbox.get_mut(&id)?.run.as_mut()
    }

    /// When [`Runs::tick`] or [`Runs::gather`] has something to do next.
    pub(crate) fn deadline(&self, now: Instant, sandboxes: &Sandboxes, io: &Io) -> Option<Instant> {
        if self.collections.any_due() && !io.link.congested() {
            return Some(now);
        }
        let death = sandboxes.death_due().filter(|_| !self.pending.is_empty());
        self.active()
            .filter_map(|(_, run)| run.next_check(now))
            .chain(death)
            .chain(self.guests.due(&self.occupants))
            .min()
    }

    /// Interrupts and kills the runs that have reached a limit.
    pub(crate) fn tick(&mut self, now: Instant, sandboxes: &Sandboxes, io: &mut Io) {
        let collecting = self.collections.any();
        let (zygotes, guests) = (&sandboxes.zygotes, &self.guests);
        let Occupants { by_sandbox, counted, .. } = &mut self.occupants;
        let native = zygotes.native().and_then(|flavor| zygotes.info(flavor)).map_or(0, |info| info.data);
        let container = || container_cpu(self.cpu.as_ref(), guests, sandboxes);
        for (id, occupant) in by_sandbox {
            let Some(sandbox) = sandboxes.get(*id) else { continue };
            // What the sandbox's processes hold from the start, because their zygotes do.
            let beside = guests.in_sandbox(*id).count() as u64;
            let held = sandbox.inherited.private + beside * native;
            let Some(run) = &mut occupant.run else {
                let limit = self.setup.ceiling.memory_bytes;
                if let Some(watch) = occupant.memory.as_mut().filter(|watch| watch.is_due(now))
                    && watch.check(now, sandbox, limit, held, counted, collecting)
                {
                    occupant.out_of_memory = true;
                    sandbox.kill();
                }
                continue;
            };
            let (group, before, sessions) =
                (zygotes.interrupts_group(sandbox.flavor), &occupant.cpu_before, || guests.sessions(*id));
            let cause = run
                .check_wall(now, sandbox, group, before, sessions)
                .or_else(|| run.check_cpu(now, sandbox, before, sessions, container))
                .or_else(|| run.check_memory(now, sandbox, held, beside > 0, counted, collecting))
                .or_else(|| run.check_stop(now, sandbox, &mut io.link));
            if let Some(cause) = cause {
                occupant.out_of_memory = cause == Cause::Memory;
                run.cause.get_or_insert(cause);
                run.used_cpu(now, sandbox, None, before, sessions, container);
                sandbox.kill();
            }
        }
        self.guests.tick(now, &mut self.occupants, sandboxes, io);
        if sandboxes.death_due().is_some_and(|due| now >= due) {
            // The worker has other containers for the waiting runs.
            self.refuse_all(&format!("the sandbox before it is not dead after {} s", DEATH_TIMEOUT.as_secs()), io);
        }
    }

    /// Refuses the waiting runs if no sandbox can be made for them.
    pub(crate) fn refuse_hopeless(&mut self, sandboxes: &mut Sandboxes, io: &mut Io) {
        if let Some(reason) = sandboxes.hopeless() {
            self.refuse_all(&reason, io);
        }
    }

    /// Refuses every run that waits.
    fn refuse_all(&mut self, reason: &str, io: &mut Io) {
        for pending in self.pending.drain(..) {
            io.refuse(pending.number, End::NotStarted { reason: reason.to_owned() });
        }
    }

    /// Interrupts a run, which is killed if it does not end within its grace. One that waits is taken back.
    pub(crate) fn interrupt(&mut self, number: u32, sandboxes: &Sandboxes, io: &mut Io) {
        if self.guests.of_run(number).is_some() {
            return self.guests.signal(number, libc::SIGINT);
        }
        let Some(&id) = self.going.get(&number) else { return self.kill(number, sandboxes, io) };
        if let (Some(sandbox), Some(run)) = (sandboxes.get(id), self.run_mut(id)) {
            run.cancel(Instant::now(), sandbox, sandboxes.zygotes.interrupts_group(sandbox.flavor));
        }
    }

    /// From now on until its next answer, a run's waiting counts against the wall clock.
    pub(crate) fn charge(&mut self, number: u32) {
        let id = self.going.get(&number).copied();
        if let Some(run) = id.and_then(|id| self.run_mut(id)) {
            run.waits.charge(Instant::now());
        }
    }

    /// Continues the process of a run for which a signal has come. The program then says anew whether it waits.
    pub(crate) fn wake(&mut self, number: u32, sandboxes: &mut Sandboxes, io: &mut Io) {
        let Some(&id) = self.going.get(&number) else { return };
        let (Some(sandbox), Some(run)) = (sandboxes.get(id), self.run_mut(id)) else { return };
        if run.waits.halt == Halt::Stopped {
            run.resume(Instant::now(), sandbox);
            self.tell(id, br#"{"op":"again"}"#, sandboxes, io);
        }
    }

    /// Called when the kernel has reported that processes have ended, stopped or continued.
    pub(crate) fn on_children(&mut self, sandboxes: &Sandboxes, io: &mut Io) {
        let now = Instant::now();
        let mut defied = Vec::new();
        for (id, occupant) in &mut self.occupants.by_sandbox {
            let (Some(run), Some(sandbox)) = (&mut occupant.run, sandboxes.get(*id)) else { continue };
            match run.waits.look(now, sandbox, run.session) {
                Change::Nothing | Change::Stays | Change::Signaled => {}
                Change::Stopped => {
                    let _ = io.link.push_json(Kind::Waits, run.number, &run.calls.len());
                }
                Change::Defied => defied.push(*id),
            }
        }
        for id in defied {
            self.kill_run(id, Cause::Broken(pause::DEFIED.to_owned()), sandboxes);
        }
    }

    /// Kills a run, or takes it back if it waits.
    pub(crate) fn kill(&mut self, number: u32, sandboxes: &Sandboxes, io: &mut Io) {
        if self.guests.kill(number, &mut self.occupants, sandboxes, io) {
            return;
        }
        if let Some(at) = self.pending.iter().position(|p| p.number == number) {
            let pending = self.pending.remove(at);
            let session = pending.as_ref().and_then(Pending::session);
            let lives = session.is_some_and(|name| self.occupants.sessions.contains_key(name));
            return io.refuse_beside(number, End::Killed, lives);
        }
        self.inbox.forget(number);
        self.collections.cut_short(number);
        if let Some(&id) = self.going.get(&number) {
            self.kill_run(id, Cause::Killed, sandboxes);
        }
    }

    /// Kills the run in that sandbox. Its exit follows when the kernel reports that its process is gone.
    fn kill_run(&mut self, id: u32, cause: Cause, sandboxes: &Sandboxes) {
        let Self { occupants, guests, cpu, .. } = self;
        let Some(sandbox) = sandboxes.get(id) else { return };
        if let Some(occupant) = occupants.by_sandbox.get_mut(&id)
            && let Some(run) = &mut occupant.run
        {
            run.cause.get_or_insert(cause);
            if run.cause == Some(Cause::Output) {
                run.outputs.iter_mut().for_each(|o| o.pipe = None);
            }
            let container = || container_cpu(cpu.as_ref(), guests, sandboxes);
            let beside = || guests.sessions(id);
            run.used_cpu(Instant::now(), sandbox, None, &occupant.cpu_before, beside, container);
        }
        sandbox.kill();
    }

    /// Moves what a run has written to that output (0 for standard output) to the worker.
    pub(crate) fn on_output(&mut self, id: u32, which: usize, sandboxes: &Sandboxes, io: &mut Io) {
        if self.guests.contains(id) {
            return self.guests.on_output(id, which, &mut self.occupants, sandboxes, io);
        }
        if self.congested {
            return;
        }
        let Some(run) = self.run_mut(id) else { return };
        if run.pump(which, &mut io.link, &mut io.chunk) == Pumped::Over {
            self.kill_run(id, Cause::Output, sandboxes);
        }
    }

    /// Goes on feeding a run's standard input.
    pub(crate) fn on_stdin(&mut self, id: u32, io: &mut Io) {
        self.guests.feed(id, io);
        if let Some(run) = self.run_mut(id) {
            run.feed();
        }
    }

    /// Stops reading the runs' outputs while too much waits for the worker.
    pub(crate) fn heed_congestion(&mut self, io: &Io) {
        if io.link.congested() == self.congested {
            return;
        }
        self.congested = !self.congested;
        self.guests.heed_congestion(self.congested, io);
        let flags = self.output_flags();
        for (id, run) in self.active() {
            for (output, token) in run.outputs.iter().zip([Token::Stdout(id), Token::Stderr(id)]) {
                if let Some(pipe) = &output.pipe {
                    io.rewatch(pipe, token, flags);
                }
            }
        }
    }

    /// What a run's outputs are watched for.
    fn output_flags(&self) -> EventFlags {
        if self.congested { EventFlags::empty() } else { EventFlags::IN }
    }

    /// Closes a session. A run of it is killed.
    pub(crate) fn close_session(&mut self, name: &str, sandboxes: &mut Sandboxes, io: &mut Io) {
        match self.occupants.sessions.get(name).copied() {
            Some(id) if self.run_mut(id).is_some() => self.kill_run(id, Cause::Killed, sandboxes),
            Some(id) => sandboxes.end(id, io),
            None => io.link.push(Kind::SessionClosed, 0, name.as_bytes()),
        }
    }

    /// Begins a checkpoint of a session. An exit follows, as for a run.
    pub(crate) fn checkpoint(&mut self, number: u32, wanted: &Checkpoint, sandboxes: &Sandboxes, io: &mut Io) {
        match self.occupants.sessions.get(&wanted.session) {
            Some(&id) if sandboxes.stage(id) == Some(Stage::Idle) && !self.collections.of_session(id) => {
                self.collections.checkpoint(id, number, wanted, sandboxes, io);
            }
            Some(_) => io.refuse(number, End::NoSession),
            None => self.collections.last_checkpoint(number, wanted, io),
        }
    }

    /// Drops the files that were kept of a session that was killed: nothing of it is to be left.
    pub(crate) fn drop_kept(&mut self) {
        self.collections.drop_kept();
    }

    /// Goes on collecting files, for one turn of the loop.
    pub(crate) fn gather(&mut self, sandboxes: &Sandboxes, io: &mut Io) {
        for number in self.collections.due() {
            if io.link.congested() {
                return;
            }
            let Some(mut collected) = self.collections.step(number, io) else { continue };
            if let Some((id, seen)) = collected.session {
                // The session may have died meanwhile.
                match self.occupants.by_sandbox.get_mut(&id).filter(|_| sandboxes.stage(id) == Some(Stage::Idle)) {
                    Some(occupant) => occupant.seen = seen,
                    None => collected.exit.session_lives = false,
                }
            }
            io.tell_exit(number, &collected.exit);
        }
    }

    /// Called when every process of that sandbox is dead.
    pub(crate) fn on_dead(&mut self, id: u32) {
        self.collections.read_from_now(id);
    }

    /// Finishes a run and sends its exit, after collecting its files if there are any. `reaped` is the kernel's report
    /// on the process; `None` if the process has said `done` and still lives.
    fn finish(&mut self, id: u32, reaped: Option<Reaped>, sandboxes: &mut Sandboxes, io: &mut Io) {
        let now = Instant::now();
        if reaped.is_some() {
            // Read what the process said before its end.
            self.on_channel(id, EventFlags::IN, sandboxes, io);
        }
        let Some(occupant) = self.occupants.by_sandbox.get_mut(&id) else { return };
        let (Some(mut run), Some(sandbox)) = (occupant.run.take(), sandboxes.get_mut(id)) else { return };
        let (number, session) = (run.number, run.session);
        self.going.remove(&number);
        if let Some(mut pending) = run.unstarted.take().filter(|p| run.cause.is_none() && p.lost < MOST_LOST) {
            // The sandbox died before the code started, so another sandbox may take the run.
            pending.lost += 1;
            self.pending.push_front(*pending);
            return sandboxes.end(id, io);
        }
        run.resume(now, sandbox);
        run.drain(&mut io.link, &mut io.chunk);
        sandbox.stage = if run.leaves_session(reaped.as_ref()) { Stage::Idle } else { Stage::Ending };
        if run.defied()
            && let (Some(name), Some(handles)) = (&occupant.session, &sandbox.handles)
        {
            self.collections.keep(id, name, &handles.storage);
        }
        let oom = self.occupants.counted.oom_kills() > run.oom_before;
        let Some(sandbox) = sandboxes.get(id) else { return };
        let container = || container_cpu(self.cpu.as_ref(), &self.guests, sandboxes);
        let beside = || self.guests.sessions(id);
        let cpu = run.used_cpu(now, sandbox, reaped.as_ref(), &occupant.cpu_before, beside, container);
        let exit = run.exit(now, reaped, oom, sandbox, cpu);
        let ended = Ended { id, number, session, exit };
        if let Some(exit) = self.collections.begin(ended, &mut occupant.seen, sandboxes, io) {
            io.tell_exit(number, &exit);
        }
        if sandboxes.stage(id) == Some(Stage::Ending) {
            sandboxes.destroy(id, io);
        }
    }

    /// Removes a sandbox whose process or session has ended, after finishing its run. `reaped` is the kernel's report
    /// on the process, if it is reaped.
    pub(crate) fn ended(&mut self, id: u32, reaped: Option<Reaped>, sandboxes: &mut Sandboxes, io: &mut Io) {
        let Some(sandbox) = sandboxes.get_mut(id) else { return };
        if reaped.is_some() {
            sandbox.pid = 0; // The kernel may give this pid to another process from now on.
        }
        if sandbox.stage.is_being_made() || sandbox.stage == Stage::Spare {
            let reason = format!("its process ended: {:?}", reaped.map(|r| r.status));
            sandboxes.failed(id, &reason, io);
            return self.refuse_hopeless(sandboxes, io);
        }
        if self.run_mut(id).is_some() {
            self.finish(id, reaped, sandboxes, io);
        }
        sandboxes.end(id, io);
        self.guests.end_all(id, &mut self.occupants, sandboxes, io);
        let occupant = self.occupants.by_sandbox.remove(&id);
        if sandboxes.remove(id, io).is_none() {
            return;
        }
        if let Some(name) = occupant.and_then(|occupant| occupant.session) {
            self.occupants.sessions.remove(&name);
            io.link.push(Kind::SessionClosed, 0, name.as_bytes());
        }
        sandboxes.sweep();
    }
}

/// The CPU time of everything in the container so far but for the runner, its zygotes and commands.
fn container_cpu(all: Option<&CpuCounter>, guests: &Guests, sandboxes: &Sandboxes) -> Duration {
    let all = all.and_then(CpuCounter::read).unwrap_or_default();
    all.saturating_sub(sandboxes.helpers_cpu() + guests.cpu(sandboxes))
}
