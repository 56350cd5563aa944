//! Cells: the engine's records of sandboxes, from their making to their end.

use std::os::fd::OwnedFd;
use std::time::Instant;

use super::active::Active;
use super::baseline::{Baseline, Others};
use crate::channel::Channel;
use crate::files::Seen;
use crate::inner::Sandbox;

/// Which zygote a sandbox's process is forked from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Flavor {
    /// An interpreter with the harness only.
    Bare = 0,
    /// Also holds the modules of the standard library that many programs import ([`crate::scan::COMMON`]).
    Common = 1,
    /// Also holds the modules of the preload list.
    Loaded = 2,
}

/// From the smallest to the largest: each holds what those before it hold.
pub(super) const FLAVORS: [Flavor; 3] = [Flavor::Bare, Flavor::Common, Flavor::Loaded];

/// The stages of a sandbox's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The nursery makes its namespaces.
    Walling,
    /// The zygote forks its process.
    Forking,
    /// The process joins the namespaces.
    Joining,
    /// Ready; no run has used it.
    Spare,
    /// A run uses it.
    Running,
    /// It holds a session between two runs.
    Idle,
    /// It is no longer used and is being killed.
    Ending,
}

impl Stage {
    /// Whether the sandbox is still being made.
    pub(super) fn unborn(self) -> bool {
        matches!(self, Self::Walling | Self::Forking | Self::Joining)
    }
}

/// A sandbox that was killed and may not be dead yet.
pub(super) struct Dying {
    /// Pidfd of its init, the last process to die.
    pub(super) init: OwnedFd,
    /// The time by which it must be dead.
    pub(super) until: Instant,
}

/// One sandbox.
pub(super) struct Cell {
    pub(super) flavor: Flavor,
    pub(super) stage: Stage,
    /// When the nursery or the zygote was last asked to make it, so that a hang is noticed.
    pub(super) since: Instant,
    /// Handles on the sandbox. `None` before it is made, after it was killed, or without an inner wall.
    pub(super) sandbox: Option<Sandbox>,
    /// The job's end of the channel, until it is sent to a zygote.
    pub(super) child_end: Option<OwnedFd>,
    pub(super) channel: Channel,
    /// Whether its process has said that it is in its sandbox.
    pub(super) joined: bool,
    /// Pid of its process in the runner's pid namespace; 0 while it is unknown, and after the process was reaped.
    pub(super) pid: i32,
    pub(super) pidfd: Option<OwnedFd>,
    /// Name of the session that lives here.
    pub(super) session: Option<String>,
    pub(super) active: Option<Active>,
    /// Its files that the worker knows already.
    pub(super) seen: Seen,
    /// CPU time of the sandbox's making and of the runs before the current one.
    pub(super) cpu_before: Baseline,
    /// Whether earlier runs of its session have started processes.
    pub(super) others: Others,
}

impl Cell {
    /// Kills everything in the sandbox.
    pub(super) fn kill(&self) {
        if let Some(sandbox) = &self.sandbox {
            sandbox.kill();
        }
        // Needed without an inner wall, or before the process has joined the sandbox; harmless otherwise.
        self.signal(rustix::process::Signal::KILL);
    }

    /// Kills everything in the sandbox for good. Returns the pidfd of its init, whose death is the end of all its
    /// processes; `None` on a second call, or without an inner wall.
    pub(super) fn end(&mut self) -> Option<OwnedFd> {
        let init = self.sandbox.take().map(|Sandbox { init, proc_dir, storage, .. }| {
            // The process that closes the last reference to a file system has to take it down. The runner closes its
            // own first, so that this falls to another process.
            drop((proc_dir, storage));
            let _ = rustix::process::pidfd_send_signal(&init, rustix::process::Signal::KILL);
            init
        });
        self.kill();
        init
    }

    /// Number of descriptors that the runner holds for it, without those of a run.
    pub(super) fn descriptors(&self) -> usize {
        1 + [self.child_end.is_some(), self.pidfd.is_some()].into_iter().filter(|there| *there).count()
            + self.sandbox.as_ref().map_or(0, Sandbox::descriptors)
    }

    /// Sends a signal to its process.
    pub(super) fn signal(&self, signal: rustix::process::Signal) {
        let _ = match (&self.pidfd, rustix::process::Pid::from_raw(self.pid)) {
            (Some(pidfd), _) => rustix::process::pidfd_send_signal(pidfd, signal),
            // The process is a child of this one, so the pid is its own until it is reaped; then `self.pid` is 0.
            (None, Some(pid)) => rustix::process::kill_process(pid, signal),
            (None, None) => Ok(()),
        };
    }
}
