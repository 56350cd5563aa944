//! One sandbox as the engine sees it, from its making to its end.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::active::Active;
use crate::channel::Channel;
use crate::files::Seen;
use crate::inner::Sandbox;

/// Which zygote a sandbox's process is forked from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Flavor {
    /// An interpreter with the harness only.
    Bare = 0,
    /// One that holds what many programs import of the standard library, too.
    Common = 1,
    /// One that holds the preload list as well.
    Loaded = 2,
}

/// From the smallest to the largest: each holds what those before it hold.
pub(super) const FLAVORS: [Flavor; 3] = [Flavor::Bare, Flavor::Common, Flavor::Loaded];

/// How far a sandbox is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The nursery makes its namespaces.
    Walling,
    /// The zygote forks its process.
    Forking,
    /// The process joins the namespaces.
    Joining,
    /// Ready, and nobody's yet.
    Spare,
    /// A run goes on.
    Running,
    /// A session between runs.
    Idle,
    /// Killed; its end is awaited.
    Ending,
}

impl Stage {
    /// Whether it is being made.
    pub(super) fn unborn(self) -> bool {
        matches!(self, Self::Walling | Self::Forking | Self::Joining)
    }
}

/// A sandbox that was killed and is not dead yet.
pub(super) struct Dying {
    /// Its init, the last to die.
    pub(super) init: OwnedFd,
    /// When it should be dead at the latest.
    pub(super) until: Instant,
}

/// One sandbox.
pub(super) struct Cell {
    pub(super) flavor: Flavor,
    pub(super) stage: Stage,
    /// When it entered a stage of its making, so that a hang shows.
    pub(super) since: Instant,
    /// Its namespaces; `None` before they are made, or without an inner wall.
    pub(super) sandbox: Option<Sandbox>,
    /// The job's end of the channel, until a zygote got it.
    pub(super) child_end: Option<OwnedFd>,
    pub(super) channel: Channel,
    /// Whether its process said that it stands in its sandbox.
    pub(super) joined: bool,
    /// Its process in the runner's pid namespace; 0 while unknown.
    pub(super) pid: i32,
    pub(super) pidfd: Option<OwnedFd>,
    /// Name of the session that lives here.
    pub(super) session: Option<String>,
    pub(super) active: Option<Active>,
    /// Its files that are known already.
    pub(super) seen: Seen,
    /// CPU time of the runs before the current one, and of the sandbox's making.
    pub(super) cpu_before: Duration,
}

impl Cell {
    /// Kills all that runs in it.
    pub(super) fn kill(&self) {
        if let Some(sandbox) = &self.sandbox {
            sandbox.kill();
        }
        // Without an inner wall, or before its process joined; harmless otherwise.
        self.signal(rustix::process::Signal::KILL);
    }

    /// Kills all that runs in it, for good. Gives the handle on its init, whose death is that of them all; `None` where it was given
    /// before, or without an inner wall.
    pub(super) fn end(&mut self) -> Option<OwnedFd> {
        let init = self.sandbox.take().map(|Sandbox { init, proc_dir, storage, .. }| {
            // Whoever lets go of a file system last takes it down, and that should not be the runner.
            drop((proc_dir, storage));
            let _ = rustix::process::pidfd_send_signal(&init, rustix::process::Signal::KILL);
            init
        });
        self.kill();
        init
    }

    /// Descriptors that the runner holds for it.
    pub(super) fn descriptors(&self) -> usize {
        1 + [self.child_end.is_some(), self.pidfd.is_some()].into_iter().filter(|there| *there).count()
            + self.sandbox.as_ref().map_or(0, Sandbox::descriptors)
    }

    /// Sends a signal to its process.
    pub(super) fn signal(&self, signal: rustix::process::Signal) {
        let _ = match (&self.pidfd, rustix::process::Pid::from_raw(self.pid)) {
            (Some(pidfd), _) => rustix::process::pidfd_send_signal(pidfd, signal),
            // A child of this process, so the number is its own until it is reaped, and 0 from then on.
            (None, Some(pid)) => rustix::process::kill_process(pid, signal),
            (None, None) => Ok(()),
        };
    }
}
