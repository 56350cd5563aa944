//! The CPU time that a sandbox's processes had used before its current run. A session's next run must not pay for it.

use std::time::{Duration, Instant};

use crate::inner::Handles;
use crate::{sys, watch};

/// CPU time before a run, counted in three ways.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Baseline {
    /// Of the sandbox's main process alone.
    pub(super) own: Duration,
    /// Of the children that the main process has waited for.
    pub(super) children: Duration,
    /// Of all processes in the sandbox, and of the children that these have waited for.
    pub(super) all: Duration,
}

impl Baseline {
    /// The times now. Without `others` (see [`Others`]), only the main process's clock is read: the other two cost
    /// more than a short run.
    ///
    /// Processes of the process sessions `beside` don't count: they belong to commands.
    pub(super) fn now(pid: i32, handles: Option<&Handles>, others: bool, beside: &[i32]) -> Self {
        let own = sys::cpu_time(pid).unwrap_or_default();
        if !others {
            return Self { own, children: Duration::ZERO, all: own };
        }
        let children = watch::children_cpu(pid, Duration::MAX);
        let all = handles
            .map_or(own + children, |handles| watch::cpu(&handles.proc_dir, |session| !beside.contains(&session)));
        Self { own, children, all }
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
    pub(super) fn look(&mut self, now: Instant, pid: i32, handles: Option<&Handles>) -> bool {
        let looked = *self.looked.get_or_insert(now);
        if now - looked >= watch::TICK {
            let live = |handles: &Handles| watch::count(&handles.proc_dir) > 1;
            self.exist = watch::children_cpu(pid, Duration::MAX) > Duration::ZERO || handles.is_some_and(live);
            self.looked = Some(now);
        }
        self.exist
    }
}
