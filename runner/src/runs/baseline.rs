//! The CPU time that a sandbox's processes have used, and what they had used before its current run. A session's next run
//! must not pay for that.

use std::time::{Duration, Instant};

use crate::inner::Handles;
use crate::sandboxes::Sandbox;
use crate::sys::Reaped;
use crate::{sys, watch};

/// CPU time that a sandbox's processes have used, counted in two ways.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Baseline {
    /// Of the sandbox's main process alone.
    pub(super) own: Duration,
    /// Of all its processes, dead or alive, but for those that ended and that nobody has waited for.
    pub(super) all: Duration,
}

impl Baseline {
    /// The times now. Without `others` (see [`Others`]), only the main process's clock is read: everything else costs
    /// more than a short run. `reaped` is the kernel's report on the main process once it has ended.
    ///
    /// Live processes of the process sessions `beside` don't count: they belong to commands.
    pub(super) fn now(sandbox: &Sandbox, reaped: Option<&Reaped>, others: bool, beside: &[i32]) -> Self {
        let own = reaped.map_or_else(|| sys::cpu_time(sandbox.pid).unwrap_or_default(), |reaped| reaped.cpu);
        if !others {
            return Self { own, all: own };
        }
        // The main process's clock is exact, and everything else is read in steps of a clock tick.
        let main = if reaped.is_some() { watch::Ticks::default() } else { watch::Ticks::of(sandbox.pid) };
        let rest = sandbox.handles.as_ref().map_or(main.children, |handles| {
            let all = watch::cpu_with_orphans(&handles.proc_dir, |session| !beside.contains(&session));
            all.saturating_sub(main.own)
        });
        Self { own, all: own + rest }
    }

    /// What was used since then.
    pub(super) fn since(self, before: Self) -> Self {
        Self { own: self.own.saturating_sub(before.own), all: self.all.saturating_sub(before.all) }
    }
}

/// Whether a session's runs have started processes besides the sandbox's main one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Others {
    exist: bool,
    looked: Option<Instant>,
}

impl Others {
    /// Looks again before a run that is not the sandbox's first, but at most once in a clock tick: a look costs more
    /// than a short run, and no process can use much in a tick.
    pub(super) fn look(&mut self, now: Instant, sandbox: &Sandbox) -> bool {
        let looked = *self.looked.get_or_insert(now);
        if now - looked >= watch::TICK {
            let there = |handles: &Handles| {
                watch::count(&handles.proc_dir) > 1 || watch::orphans_cpu(&handles.proc_dir) > Duration::ZERO
            };
            let waited_for = watch::Ticks::of(sandbox.pid).children > Duration::ZERO;
            self.exist = waited_for || sandbox.handles.as_ref().is_some_and(there);
            self.looked = Some(now);
        }
        self.exist
    }
}
