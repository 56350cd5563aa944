//! Clocks of a run: its time-outs, and the watches over CPU time and memory.

use std::time::{Duration, Instant};

use super::active::{Active, Cause};
use super::baseline::Baseline;
use super::memory::Counted;
use crate::sandboxes::{HEAD_START, Sandbox};
use crate::{sys, watch};

/// Shortest time between two checks of CPU time, once a run may have used it up.
const CPU_TICK: Duration = Duration::from_millis(5);

/// CPU time that the runner and its zygotes may use during a run, such as for imports of the preload list or a spare.
const BESIDE: Duration = Duration::from_secs(1);

impl Active {
    /// When the code is interrupted.
    pub(super) fn soft_at(&self) -> Instant {
        self.handed + Duration::from_millis(self.limits.wall_ms)
    }

    /// When the run is killed.
    pub(super) fn hard_at(&self) -> Instant {
        self.soft_at() + Duration::from_millis(self.limits.grace_ms)
    }

    /// When a check has something to do next; `None` for a run that was killed already, of which only the end is waited
    /// for.
    pub(super) fn next_check(&self, now: Instant) -> Option<Instant> {
        if self.cause.is_some() {
            return None;
        }
        let wall = if self.interrupted { self.hard_at() } else { self.soft_at() };
        let next = wall.min(self.next_cpu_check).min(self.memory.next);
        Some(if self.in_head_start(now) { next.min(self.handed + HEAD_START) } else { next })
    }

    /// Whether it still has the machine to itself.
    pub(super) fn in_head_start(&self, now: Instant) -> bool {
        now - self.handed < HEAD_START
    }

    /// Interrupts it when its wall-clock time is over; `group` is as in [`Sandbox::interrupt`]. Returns why it is to be
    /// killed, if that did not help.
    pub(super) fn check_wall(&mut self, now: Instant, sandbox: &Sandbox, group: bool) -> Option<Cause> {
        if now >= self.hard_at() && self.cause.is_none() {
            return Some(Cause::Wall);
        }
        if now >= self.soft_at() && !self.interrupted {
            self.interrupted = true;
            sandbox.interrupt(group);
        }
        None
    }

    /// Checks its CPU time, if that is due. `before` is what its sandbox had used before it, `beside` is as in
    /// [`Baseline::now`], and `container` is what the container has used so far, without commands beside programs.
    pub(super) fn check_cpu(
        &mut self,
        now: Instant,
        sandbox: &Sandbox,
        before: &Baseline,
        beside: &[i32],
        container: impl FnOnce() -> Duration,
    ) -> Option<Cause> {
        if now < self.next_cpu_check {
            return None;
        }
        let limit = Duration::from_millis(self.limits.cpu_ms);
        let own = sys::cpu_time(sandbox.pid).unwrap_or_default().saturating_sub(before.own);
        // The clock of the main process is exact; the sum over the sandbox has steps of 10 ms.
        let all = sandbox.handles.as_ref().map(|h| watch::cpu(&h.proc_dir, |session| !beside.contains(&session)));
        let all = all.map(|all| all.saturating_sub(before.all));
        let used = own.max(all.unwrap_or_default());
        // Neither counts a process that has ended and that nobody waits for. The container's control group does, but it
        // counts everything else in the container, too. So the group's time has a higher limit, and counts from the
        // first check on. (An earlier start would cost a read in every run, and most runs end before their first
        // check.)
        let container = container();
        let since = container.saturating_sub(*self.container_cpu_before.get_or_insert(container));
        let (left, left_of_container) = (limit.saturating_sub(used), (limit + BESIDE).saturating_sub(since));
        if left.is_zero() || left_of_container.is_zero() {
            return Some(Cause::Cpu);
        }
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        self.next_cpu_check = now + (left.min(left_of_container) / cores).max(CPU_TICK);
        None
    }

    /// Checks its memory, if that is due. `others` is what its zygote and the commands beside it hold before they begin,
    /// in bytes; `collecting` is whether files of an ended run are being collected.
    pub(super) fn check_memory(
        &mut self,
        now: Instant,
        sandbox: &Sandbox,
        others: u64,
        counted: &Counted,
        collecting: bool,
    ) -> Option<Cause> {
        if self.cause.is_some() || !self.memory.is_due(now) {
            return None;
        }
        if counted.oom_kills() > self.oom_before {
            return Some(Cause::Memory);
        }
        let over = self.memory.check(now, sandbox, self.limits.memory_bytes + others, counted, collecting);
        over.then_some(Cause::Memory)
    }
}
