//! Processes that are started, watched and ended by id.
//!
//! A process is known by its pid *and* its start time, so that a state file that outlived its processes can never
//! make anyone end a stranger that was given the same pid.

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

/// What `/proc/<pid>/stat` says that matters here.
#[derive(Debug, Clone)]
pub(crate) struct Stat {
    /// One letter; `Z` is a zombie.
    pub(crate) state: char,
    /// The parent's pid.
    pub(crate) parent: i32,
    /// Start time in clock ticks since boot.
    pub(crate) start: u64,
}

/// Reads a process's state; `None` where there is no such process.
pub(crate) fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the name in brackets, and may itself hold spaces and brackets.
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}

/// A program in a session of its own, under the id of the process that is started. A terminal's signals don't reach it; and where the
/// kernel shares the processors out by session (`sched_autogroup_enabled`), it has a share of its own, as a service has.
pub(crate) fn in_own_session(program: impl AsRef<OsStr>) -> Command {
    // It forks only if it leads a process group, which the child of a spawn does not.
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
    /// The identity of a process that runs now.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        Some(Self { pid, start: stat(pid)?.start })
    }

    /// Whether it still runs. A zombie doesn't.
    pub(crate) fn alive(self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.start == self.start && stat.state != 'Z')
    }

    /// Sends a signal, if it still runs.
    pub(crate) fn signal(self, signal: Signal) {
        if self.alive()
            && let Some(pid) = Pid::from_raw(self.pid)
        {
            // It may end between the check and the signal; then there is nothing left to do.
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits until it has ended; says whether it did in time.
    pub(crate) fn wait(self, limit: Duration) -> bool {
        wait_until(limit, || !self.alive())
    }

    /// Asks it to end, and ends it when it doesn't within the grace.
    pub(crate) fn stop(self, grace: Duration) {
        self.signal(Signal::TERM);
        if !self.wait(grace) {
            self.kill();
        }
    }

    /// Ends it at once.
    pub(crate) fn kill(self) {
        self.signal(Signal::KILL);
        self.wait(Duration::from_secs(5));
    }
}

/// Asks again and again, every 20 ms, until the answer is yes or the limit has passed; says which.
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

/// Every living descendant of a process, children before grandchildren.
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
