//! Ends sandboxes, and waits until every process of them is dead.

use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;

use super::Sandboxes;
use super::sandbox::{Dying, Sandbox, Stage};
use crate::io::{Io, Token};
use crate::{procfs, sys};

/// Longest time that a killed sandbox may take to die. It usually takes milliseconds, but on a busy machine its
/// processes have to wait for a processor.
pub(crate) const DEATH_TIMEOUT: Duration = Duration::from_secs(5);

impl Sandboxes {
    /// Kills everything in a sandbox and forgets it.
    pub(crate) fn remove(&mut self, id: u32, io: &mut Io) -> Option<Sandbox> {
        self.destroy(id, io);
        self.by_id.remove(&id)
    }

    /// Marks a sandbox as no longer used, and kills everything in it.
    pub(crate) fn end(&mut self, id: u32, io: &mut Io) {
        if let Some(sandbox) = self.by_id.get_mut(&id) {
            sandbox.stage = Stage::Ending;
        }
        self.destroy(id, io);
    }

    /// Kills everything in a sandbox and closes the runner's handles on its files. [`Sandboxes::on_dead`] follows when
    /// all of its processes are dead.
    pub(crate) fn destroy(&mut self, id: u32, io: &mut Io) {
        let Some(init) = self.by_id.get_mut(&id).and_then(Sandbox::destroy) else { return };
        if let Err(e) = io.watch(&init, Token::Dead(id), EventFlags::IN) {
            // Without this watch, nobody would know when the next run may start.
            crate::log(&e.to_string());
            io.over = Some(1);
        }
        self.dying.insert(id, Dying { init, until: Instant::now() + DEATH_TIMEOUT });
    }

    /// Called when every process of that sandbox is dead.
    pub(crate) fn on_dead(&mut self, id: u32, io: &Io) {
        if let Some(dying) = self.dying.remove(&id) {
            io.unwatch(dying.init);
        }
    }

    /// Whether a killed sandbox may have processes that are not dead yet.
    pub(crate) fn any_dying(&self) -> bool {
        !self.dying.is_empty()
    }

    /// The time by which the first of the killed sandboxes must be dead; `None` if none is dying.
    pub(crate) fn death_due(&self) -> Option<Instant> {
        self.dying.values().map(|dying| dying.until).min()
    }

    /// Without an inner wall: kills the processes that a job has left behind. Orphans become children of this process.
    pub(crate) fn sweep(&self) {
        if self.nested() {
            return;
        }
        for pid in children() {
            if self.zygotes.of_pid(pid).is_none() && self.of_pid(pid).is_none() {
                sys::kill(pid);
            }
        }
    }
}

/// Pids of this process's children.
fn children() -> Vec<i32> {
    let me = std::process::id();
    if let Ok(list) = std::fs::read_to_string(format!("/proc/{me}/task/{me}/children")) {
        return list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
    }
    // A kernel without that list (gVisor): read each process's parent, the second field after the name in parentheses.
    let parent = |pid: i32| {
        let stat = procfs::text(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| parent(*pid) == Some(me)).collect()
}

/// The pid of a pidfd's process in this process's pid namespace. Not positive once the process was reaped.
pub(crate) fn pid_of(pidfd: impl AsFd) -> Option<i32> {
    let info = procfs::text(format!("/proc/self/fdinfo/{}", pidfd.as_fd().as_raw_fd())).ok()?;
    info.lines().find_map(|l| l.strip_prefix("Pid:")?.trim().parse().ok())
}
