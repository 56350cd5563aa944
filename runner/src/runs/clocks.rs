//! Clocks of a run: its time-outs, and the watches over CPU time and memory. What does not count against the wall clock
//! is in `waits`.

use std::time::{Duration, Instant};

use super::active::{Active, Cause};
use super::baseline::Baseline;
use super::memory::Counted;
use super::pause::{Change, DEFIED};
use super::waits::Halt;
use crate::frames::Kind;
use crate::io::Link;
use crate::sandboxes::{HEAD_START, Sandbox};
use crate::sys::Reaped;
use crate::watch;

/// Shortest time between two checks of CPU time, once a run may have used it up.
const CPU_TICK: Duration = Duration::from_millis(5);

/// Shortest time between two checks of a run whose process is stopped. Then only what others have started can use
/// anything.
const STOPPED_TICK: Duration = Duration::from_secs(1);

/// When a run's CPU time is looked at first. Most runs have ended by then.
pub(super) const FIRST_CPU_CHECK: Duration = Duration::from_millis(25);

/// CPU time of the container during a run that belongs to nobody known and means nothing: the making of spares, and
/// what clocks differ by.
const BESIDE: Duration = Duration::from_millis(50);

impl Active {
    /// When a check has something to do next; `None` for a run that was killed already, of which only the end is waited
    /// for.
    pub(super) fn next_check(&self, now: Instant) -> Option<Instant> {
        if self.cause.is_some() {
            return None;
        }
        let wall = match self.interrupted {
            Some(at) => at + self.grace(),
            None => self.waits.wall_due(self.handed, self.wall(), !self.calls.is_empty(), now),
        };
        let next = wall.min(self.next_cpu_check).min(self.memory.next);
        let next = [self.waits.stop_at(), self.waits.signals_at].into_iter().flatten().fold(next, Instant::min);
        Some(if self.in_head_start(now) { next.min(self.handed + HEAD_START) } else { next })
    }

    /// Stops its process if the run has waited for long enough. Tells the worker if it waits without a stop, or if a
    /// signal has come for the stopped process. Returns why it is to be killed, if others don't let it be stopped.
    pub(super) fn check_stop(&mut self, now: Instant, sandbox: &Sandbox, link: &mut Link) -> Option<Cause> {
        if self.cause.is_some() {
            return None;
        }
        match self.waits.check_stop(now, sandbox, self.session) {
            Change::Nothing | Change::Stopped => None,
            Change::Stays => {
                link.push(Kind::Stays, self.number, &[]);
                None
            }
            Change::Signaled => {
                link.push(Kind::Wakes, self.number, &[]);
                None
            }
            Change::Defied => Some(Cause::Broken(DEFIED.to_owned())),
        }
    }

    /// Ends a wait, and continues the process if it is stopped.
    pub(super) fn resume(&mut self, now: Instant, sandbox: &Sandbox) {
        if self.waits.resume(now, sandbox) {
            (self.next_cpu_check, self.memory.next) = (now, now);
        }
    }

    fn wall(&self) -> Duration {
        Duration::from_millis(self.limits.wall_ms)
    }

    fn grace(&self) -> Duration {
        Duration::from_millis(self.limits.grace_ms)
    }

    /// Whether it still has the machine to itself.
    pub(super) fn in_head_start(&self, now: Instant) -> bool {
        now - self.handed < HEAD_START
    }

    /// Interrupts it when its wall-clock time is over; `group` is as in [`Sandbox::interrupt`], the others as in
    /// [`Active::check_cpu`]. Returns why it is to be killed, if that did not help.
    pub(super) fn check_wall(
        &mut self,
        now: Instant,
        sandbox: &Sandbox,
        group: bool,
        before: &Baseline,
        beside: impl Fn() -> Vec<i32>,
    ) -> Option<Cause> {
        if let Some(at) = self.interrupted {
            let cause = if self.cancelled { Cause::Killed } else { Cause::Wall };
            return (self.cause.is_none() && now >= at + self.grace()).then_some(cause);
        }
        let (wall, session) = (self.wall(), self.session);
        let cpu = || {
            // What a session's earlier programs have left goes on while this one waits.
            let used = Baseline::now(sandbox, None, !session, &beside()).since(*before);
            if session { used.own } else { used.all }
        };
        if !self.waits.wall_is_over(self.handed, wall, !self.calls.is_empty(), now, cpu) {
            return None;
        }
        if self.limits.grace_ms == 0 {
            return self.cause.is_none().then_some(Cause::Wall);
        }
        self.interrupt(now, sandbox, group);
        None
    }

    /// Interrupts it because it was cancelled, unless it was interrupted already. Without a grace, it is only killed. One
    /// whose code has not started is interrupted when it does, because until then its process heeds no interrupt.
    pub(super) fn cancel(&mut self, now: Instant, sandbox: &Sandbox, group: bool) {
        if self.interrupted.is_some() {
            return;
        }
        self.cancelled = true;
        if self.began.is_some() && self.limits.grace_ms > 0 {
            self.interrupt(now, sandbox, group);
        } else {
            self.interrupted = Some(now);
            self.waits.close(now);
        }
    }

    /// Whether it is killed because it did not end when its time was over, or when it was cancelled.
    pub(super) fn defied(&self) -> bool {
        match self.cause {
            Some(Cause::Wall) => true,
            Some(Cause::Killed) => self.cancelled,
            _ => false,
        }
    }

    fn interrupt(&mut self, now: Instant, sandbox: &Sandbox, group: bool) {
        self.interrupted = Some(now);
        self.waits.close(now);
        sandbox.interrupt(group);
        self.resume(now, sandbox);
    }

    /// The CPU time that it has used by `now`, at least as much as was seen before. `reaped` and `before` are as in
    /// [`Baseline::now`] and [`Baseline::since`], and `beside` and `container` as in [`Active::check_cpu`].
    pub(super) fn used_cpu(
        &mut self,
        now: Instant,
        sandbox: &Sandbox,
        reaped: Option<&Reaped>,
        before: &Baseline,
        beside: impl Fn() -> Vec<i32>,
        container: impl Fn() -> Duration,
    ) -> Baseline {
        let long = now - self.handed >= watch::TICK;
        let mut used = Baseline::now(sandbox, reaped, long || reaped.is_some(), &beside()).since(*before);
        if long {
            // What ended and was waited for by nobody shows only here. The container's group counts everything else in
            // the container, too, so a small difference means nothing. (A look at the very beginning would cost more
            // than it finds: most runs end before this one.)
            let container = container();
            let since = container.saturating_sub(*self.container_cpu_before.get_or_insert(container));
            if since > used.all + BESIDE {
                used.all = since;
            }
        } else {
            used.all = used.all.min(used.own);
        }
        self.cpu = self.cpu.max(used.own).max(used.all);
        Baseline { own: used.own, all: self.cpu }
    }

    /// Checks its CPU time, if that is due. `before` is what its sandbox had used before it, `beside` is as in
    /// [`Baseline::now`], and `container` is what everything in the container has used so far but for the runner, its
    /// zygotes and commands.
    pub(super) fn check_cpu(
        &mut self,
        now: Instant,
        sandbox: &Sandbox,
        before: &Baseline,
        beside: impl Fn() -> Vec<i32>,
        container: impl Fn() -> Duration,
    ) -> Option<Cause> {
        if now < self.next_cpu_check {
            return None;
        }
        let used = self.used_cpu(now, sandbox, None, before, beside, container).all;
        let left = Duration::from_millis(self.limits.cpu_ms).saturating_sub(used);
        if left.is_zero() {
            return Some(Cause::Cpu);
        }
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        let shortest = if self.waits.halt == Halt::Stopped { STOPPED_TICK } else { CPU_TICK };
        self.next_cpu_check = now + (left / cores).max(shortest);
        None
    }

    /// Checks its memory, if that is due. `others` is what its process and the commands beside it hold before they
    /// begin, in bytes; `guests` is whether there are such commands; `collecting` is whether files of an ended run are
    /// being collected.
    pub(super) fn check_memory(
        &mut self,
        now: Instant,
        sandbox: &Sandbox,
        others: u64,
        guests: bool,
        counted: &Counted,
        collecting: bool,
    ) -> Option<Cause> {
        if self.cause.is_some() || !self.memory.is_due(now) {
            return None;
        }
        if counted.oom_kills() > self.oom_before {
            return Some(Cause::Memory);
        }
        let over = self.memory.check(now, sandbox, self.limits.memory_bytes, others, counted, collecting);
        if self.waits.halt == Halt::Stopped && !guests && sandbox.processes() <= 1 {
            self.memory.next = now + STOPPED_TICK;
        }
        over.then_some(Cause::Memory)
    }
}
