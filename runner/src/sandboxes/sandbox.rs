//! What the runner knows about one sandbox, from its making to its end.

use std::cell::{Cell, OnceCell};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::process::{WaitId, WaitIdOptions, WaitIdStatus, waitid};

use crate::channel::Channel;
use crate::inner::Handles;
use crate::languages::Flavor;
use crate::watch::{self, Resident};

/// The stages of a sandbox's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The nursery makes its namespaces.
    Preparing,
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
    pub(crate) fn is_being_made(self) -> bool {
        matches!(self, Self::Preparing | Self::Forking | Self::Joining)
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
pub(crate) struct Sandbox {
    pub(crate) flavor: Flavor,
    pub(crate) stage: Stage,
    /// When the nursery or the zygote was last asked to make it, so that a hang is noticed.
    pub(super) since: Instant,
    /// Handles on its namespaces and its init. `None` before the nursery has made them, after it was killed, or without
    /// an inner wall.
    pub(crate) handles: Option<Handles>,
    /// The job's end of the channel, until it is sent to a zygote.
    pub(super) child_end: Option<OwnedFd>,
    pub(crate) channel: Channel,
    /// Whether its process has said that it is in its sandbox.
    pub(crate) joined: bool,
    /// Pid of its process in the runner's pid namespace; 0 while it is unknown, and after the process was reaped.
    pub(crate) pid: i32,
    pub(super) pidfd: Option<OwnedFd>,
    /// The `status` of its process in `/proc`, once it was read. To open it anew takes half as long again as to read
    /// it, and a session's program is asked after each of its runs.
    status: OnceCell<File>,
    /// What its process held before its first run, because its zygote does.
    pub(crate) inherited: Resident,
    /// Whether the runner has killed everything in it.
    killed: Cell<bool>,
}

impl Sandbox {
    /// A sandbox that is about to be made.
    pub(super) fn new(flavor: Flavor, channel: Channel, child_end: OwnedFd) -> Self {
        Self {
            flavor,
            stage: Stage::Preparing,
            since: Instant::now(),
            handles: None,
            child_end: Some(child_end),
            channel,
            joined: false,
            pid: 0,
            pidfd: None,
            status: OnceCell::new(),
            inherited: Resident::default(),
            killed: Cell::new(false),
        }
    }

    /// Kills everything in the sandbox. The runner keeps its handles on it.
    pub(crate) fn kill(&self) {
        self.killed.set(true);
        if let Some(handles) = &self.handles {
            handles.kill();
        }
        // Needed without an inner wall, or before the process has joined the sandbox; harmless otherwise.
        self.signal(rustix::process::Signal::KILL);
    }

    /// Whether it lives, as far as the runner knows.
    pub(crate) fn lives(&self) -> bool {
        self.stage != Stage::Ending && !self.killed.get()
    }

    /// Kills everything in the sandbox and gives up the handles on it. Returns the pidfd of its init, which is the last
    /// process to die; `None` on a second call, or without an inner wall.
    pub(super) fn destroy(&mut self) -> Option<OwnedFd> {
        let init = self.handles.take().map(|Handles { init, proc_dir, storage, namespaces }| {
            // The process that closes the last reference to a file system has to take it down. The runner closes its
            // own first, so that this falls to another process.
            drop((proc_dir, storage, namespaces));
            let _ = rustix::process::pidfd_send_signal(&init, rustix::process::Signal::KILL);
            init
        });
        self.kill();
        init
    }

    /// Number of descriptors that the runner holds for it, without those of a run.
    pub(super) fn descriptors(&self) -> usize {
        1 + [self.child_end.is_some(), self.pidfd.is_some(), self.status.get().is_some()]
            .into_iter()
            .filter(|there| *there)
            .count()
            + self.handles.as_ref().map_or(0, Handles::descriptors)
    }

    /// Interrupts its process or, with `group`, the whole process group that its process leads.
    pub(crate) fn interrupt(&self, group: bool) {
        match rustix::process::Pid::from_raw(self.pid) {
            Some(pid) if group => drop(rustix::process::kill_process_group(pid, rustix::process::Signal::INT)),
            _ => self.signal(rustix::process::Signal::INT),
        }
    }

    /// Number of its processes, without the init; 0 without an inner wall.
    pub(crate) fn processes(&self) -> usize {
        self.handles.as_ref().map_or(0, |handles| watch::count(&handles.proc_dir))
    }

    /// Resident memory of its process; 0 when the process is gone.
    pub(crate) fn resident(&self) -> Resident {
        self.status().map(Resident::read).unwrap_or_default()
    }

    /// Whether a signal has come for its process, which is stopped, and waits.
    pub(crate) fn has_signal(&self) -> bool {
        self.status().is_some_and(|status| watch::has_signal(self.pid, status))
    }

    fn status(&self) -> Option<&File> {
        if self.status.get().is_none()
            && let Ok(status) = File::open(format!("/proc/{}/status", self.pid))
        {
            let _ = self.status.set(status);
        }
        self.status.get()
    }

    /// Stops its process. [`Sandbox::has_stopped`] tells when the kernel has done so.
    pub(crate) fn stop(&self) {
        // The kernel still knows of the last time that the process was continued.
        let _ = self.changed(WaitIdOptions::CONTINUED);
        self.signal(rustix::process::Signal::STOP);
    }

    /// Continues its process.
    pub(crate) fn resume(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    /// Whether its process has stopped since the last [`Sandbox::stop`]. The runner gets SIGCHLD when it does.
    pub(crate) fn has_stopped(&self) -> bool {
        self.changed(WaitIdOptions::STOPPED).is_some_and(|status| status.stopped())
    }

    /// Whether something has continued its process since it stopped. The runner gets SIGCHLD then, too.
    pub(crate) fn was_continued(&self) -> bool {
        self.changed(WaitIdOptions::CONTINUED).is_some_and(|status| status.continued())
    }

    fn changed(&self, what: WaitIdOptions) -> Option<WaitIdStatus> {
        let pid = rustix::process::Pid::from_raw(self.pid)?;
        waitid(WaitId::Pid(pid), what | WaitIdOptions::NOHANG).ok().flatten()
    }

    /// Sends a signal to its process.
    fn signal(&self, signal: rustix::process::Signal) {
        let _ = match (&self.pidfd, rustix::process::Pid::from_raw(self.pid)) {
            (Some(pidfd), _) => rustix::process::pidfd_send_signal(pidfd, signal),
            // The process is a child of this one, so the pid is its own until it is reaped; then `self.pid` is 0.
            (None, Some(pid)) => rustix::process::kill_process(pid, signal),
            (None, None) => Ok(()),
        };
    }
}
