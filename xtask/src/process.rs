//! Processes that are started, watched and ended by id.
//!
//! A process is known by its pid *and* its start time. A state file can outlive its processes, and must never make
//! xtask end another process that was given the same pid.

use std::{
    ffi::OsStr,
    fs,
    process::Command,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// One process, safe against recycled pids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcId {
    /// The process id.
    pub(crate) pid: i32,
    /// Its start time in clock ticks since boot (field 22 of `/proc/<pid>/stat`).
    pub(crate) start: u64,
}

/// The parts of `/proc/<pid>/stat` that are used here.
#[derive(Debug, Clone)]
pub(crate) struct Stat {
    /// One letter; `Z` is a zombie.
    pub(crate) state: char,
    /// The parent's pid.
    pub(crate) parent: i32,
    /// Start time in clock ticks since boot.
    pub(crate) start: u64,
}

/// Reads a process's state; `None` if there is no such process.
pub(crate) fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the name in brackets. The name may contain spaces and brackets.
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}

/// A command that runs a program in a session of its own, under the pid of the spawned process. A terminal's signals
/// don't reach the program. If the kernel shares out processor time by session (`sched_autogroup_enabled`), the program
/// has a share of its own, as a service has.
pub(crate) fn in_own_session(program: impl AsRef<OsStr>) -> Command {
    // `setsid` forks only if it leads a process group. A spawned child doesn't, so the pid stays the same.
    let mut command = Command::new("setsid");
    command.arg(program);
    command
}

/// All pids on the machine.
pub(crate) fn pids() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// A process's command line, its arguments separated by spaces; empty for a zombie.
pub(crate) fn command_line(pid: i32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ").trim().to_owned()
}

impl ProcId {
    /// The identity of a running process; `None` if there is none with this pid.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        Some(Self { pid, start: stat(pid)?.start })
    }

    /// Whether the process still runs. A zombie doesn't.
    pub(crate) fn alive(self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.start == self.start && stat.state != 'Z')
    }

    /// Sends a signal, if the process still runs.
    pub(crate) fn signal(self, signal: Signal) {
        if self.alive()
            && let Some(pid) = Pid::from_raw(self.pid)
        {
            // The process may end between the check and the signal. Then there is nothing left to do.
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits until the process has ended. Gives false if it is still alive after `limit`.
    pub(crate) fn wait(self, limit: Duration) -> bool {
        wait_until(limit, || !self.alive())
    }

    /// Sends SIGTERM, and SIGKILL if the process hasn't ended within `grace`.
    pub(crate) fn stop(self, grace: Duration) {
        self.signal(Signal::TERM);
        if !self.wait(grace) {
            self.kill();
        }
    }

    /// Sends SIGKILL, and waits up to five seconds for the end.
    pub(crate) fn kill(self) {
        self.signal(Signal::KILL);
        self.wait(Duration::from_secs(5));
    }
}

/// Calls `yes` every 20 ms until it gives true, or until `limit` has passed. Gives the last answer.
pub(crate) fn wait_until(limit: Duration, mut yes: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if yes() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Every living descendant of a process. Each one comes before its own children.
pub(crate) fn descendants(of: i32) -> Vec<ProcId> {
    let all: Vec<(i32, Stat)> = pids().into_iter().filter_map(|pid| Some((pid, stat(pid)?))).collect();
    let mut found = Vec::new();
    let mut parents = vec![of];
    while let Some(parent) = parents.pop() {
        for (pid, stat) in all.iter().filter(|(_, stat)| stat.parent == parent) {
            parents.push(*pid);
            if stat.state != 'Z' {
                found.push(ProcId { pid: *pid, start: stat.start });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recycled_pid_is_a_stranger() {
        let me = ProcId::of(std::process::id() as i32).unwrap();
        assert!(me.alive());
        assert!(!ProcId { start: me.start + 1, ..me }.alive());
    }

    #[test]
    fn a_child_is_found_and_stopped() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let id = ProcId::of(child.id() as i32).unwrap();
        assert!(descendants(std::process::id() as i32).contains(&id));
        id.stop(Duration::from_secs(5));
        assert!(!id.alive());
        child.wait().unwrap();
    }
}
