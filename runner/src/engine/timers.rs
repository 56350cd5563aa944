//! Clocks: time-outs of runs, watches over CPU and memory, hung zygotes.

use std::time::{Duration, Instant};

use super::Engine;
use super::active::Cause;
use super::cell::{FLAVORS, Stage};
use super::supply::HEAD_START;
use crate::cpu::CpuCounter;
use crate::error::Result;
use crate::{sys, watch};

/// Longest time that a step in the making of a sandbox may take before it counts as hung.
const STALL: Duration = Duration::from_secs(3);

/// Longest time that a zygote may take for its imports.
const HATCHING: Duration = Duration::from_secs(120);

/// Shortest time between two checks of CPU time, once a run may have used it up.
const CPU_TICK: Duration = Duration::from_millis(5);

/// CPU time that the runner and its zygotes may use during a run, such as for imports of the preload list or a spare.
const BESIDE: Duration = Duration::from_secs(1);

impl Engine {
    /// When [`Engine::tick`] has something to do next.
    pub(super) fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let mut next: Option<Instant> = self.retry_at;
        if self.gathers() {
            return Some(now);
        }
        let mut at = |when: Instant| next = Some(next.map_or(when, |n| n.min(when)));
        for cell in self.cells.values() {
            // A run with a cause was killed already; only its end is waited for.
            if let Some(run) = cell.active.as_ref().filter(|run| run.cause.is_none()) {
                at(if run.interrupted { run.hard_at() } else { run.soft_at() });
                at(run.next_cpu_check);
                at(run.next_memory_check);
                if now - run.handed < HEAD_START {
                    at(run.handed + HEAD_START);
                }
            }
            if cell.stage.unborn() {
                at(cell.since + STALL);
            }
        }
        if !self.pending.is_empty() {
            self.death_due().into_iter().for_each(&mut at);
        }
        for zygote in self.zygotes.iter().flatten().filter(|z| z.hatched.is_none()) {
            at(zygote.heard + HATCHING);
        }
        self.next_look().into_iter().for_each(&mut at);
        next
    }

    pub(super) fn tick(&mut self, now: Instant) -> Result<()> {
        let running: Vec<u32> = self.cells.iter().filter(|(_, c)| c.active.is_some()).map(|(id, _)| *id).collect();
        for &id in &running {
            self.check_wall(id, now);
            self.check_cpu(id, now);
        }
        self.check_memory(&running, now);
        self.check_supply(now);
        self.check_deaths(now);
        Ok(())
    }

    fn check_wall(&mut self, id: u32, now: Instant) {
        let Some(cell) = self.cells.get_mut(&id) else { return };
        let Some(run) = &mut cell.active else { return };
        if now >= run.hard_at() && run.cause.is_none() {
            self.condemn(id, Cause::Wall);
        } else if now >= run.soft_at() && !run.interrupted {
            run.interrupted = true;
            cell.signal(rustix::process::Signal::INT);
        }
    }

    fn check_cpu(&mut self, id: u32, now: Instant) {
        let Some(cell) = self.cells.get_mut(&id) else { return };
        let Some(run) = &mut cell.active else { return };
        if now < run.next_cpu_check {
            return;
        }
        let limit = Duration::from_millis(run.limits.cpu_ms);
        let own = sys::cpu_time(cell.pid).unwrap_or_default().saturating_sub(cell.cpu_before.own);
        // The clock of the main process is exact; the sum over the sandbox has steps of 10 ms.
        let all = cell.sandbox.as_ref().map(|s| watch::cpu(&s.proc_dir).saturating_sub(cell.cpu_before.all));
        let used = own.max(all.unwrap_or_default());
        // Neither counts a process that has ended and that nobody waits for. The container's control group does, but it
        // counts everything else in the container, too. So the group's time has a higher limit, and counts from the
        // first check on. (An earlier start would cost a read in every run, and most runs end before their first
        // check.)
        let container = self.cpu.as_ref().and_then(CpuCounter::read).unwrap_or_default();
        let since = container.saturating_sub(*run.container_cpu_before.get_or_insert(container));
        let (left, left_of_container) = (limit.saturating_sub(used), (limit + BESIDE).saturating_sub(since));
        if left.is_zero() || left_of_container.is_zero() {
            self.condemn(id, Cause::Cpu);
        } else {
            let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
            run.next_cpu_check = now + (left.min(left_of_container) / cores).max(CPU_TICK);
        }
    }

    /// Gives up sandboxes whose making hangs, and kills zygotes that hang.
    fn check_supply(&mut self, now: Instant) {
        let stalled: Vec<(u32, Stage)> = self
            .cells
            .iter()
            .filter(|(_, c)| c.stage.unborn() && now >= c.since + STALL)
            .map(|(id, c)| (*id, c.stage))
            .collect();
        for (id, stage) in stalled {
            if stage == Stage::Forking
                && let Some(zygote) = self.cells.get(&id).and_then(|c| self.zygote(c.flavor))
            {
                // When its end is reaped, another one takes its place.
                sys::kill(zygote.pid);
            }
            self.cell_failed(id, &format!("no progress in {} s", STALL.as_secs()));
        }
        for flavor in FLAVORS {
            if let Some(zygote) = self.zygote(flavor)
                && zygote.hatched.is_none()
                && now >= zygote.heard + HATCHING
            {
                sys::kill(zygote.pid);
            }
        }
    }
}
