//! A guest: the process of a command or a file operation in a session's sandbox.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, pidfd_send_signal};

use super::input::Input;
use super::output::Outputs;
use crate::channel::{Channel, Message};
use crate::frames::{Beside, Work};
use crate::languages::Child;
use crate::procfs;
use crate::runs::active::{Cause, input_pipe, output_pipe};
use crate::sandboxes::{Sandboxes, pid_of};
use crate::sys::Reaped;
use crate::watch;

/// Longest time that a guest may take from its request until it begins. It usually takes a millisecond.
pub(super) const BEGIN_TIMEOUT: Duration = Duration::from_secs(5);

/// One guest.
pub(in crate::runs) struct Guest {
    /// Number of its run.
    pub(super) number: u32,
    /// Number of its sandbox.
    pub(in crate::runs) sandbox: u32,
    /// What it is to do, and its ends of the pipes, until it is told.
    pub(super) order: Option<(Work, Vec<OwnedFd>)>,
    pub(super) wall: Duration,
    pub(super) channel: Channel,
    /// Pid of its process, which leads a process group and a process session of its own. 0 while it is unknown, and
    /// after the process was reaped.
    pub(super) pid: i32,
    pidfd: Option<OwnedFd>,
    /// Its pid in the sandbox.
    pub(super) session: Option<i32>,
    /// Signals that came before it began.
    pub(super) early: Vec<Signal>,
    pub(super) input: Input,
    pub(super) outputs: Outputs,
    pub(super) arrived: Instant,
    /// When it was told what to do.
    pub(super) handed: Option<Instant>,
    /// When it began with that.
    pub(super) began: Option<Instant>,
    pub(super) done: Option<Message>,
    /// OOM kills in the container before it.
    pub(super) oom_before: u64,
    /// Why the runner killed it.
    pub(super) cause: Option<Cause>,
    /// The kernel's report on its end. Its last output may still have to be delivered.
    pub(super) ended: Option<(Reaped, Instant)>,
}

impl Guest {
    /// A guest that has no process yet. Also returns the process's end of the channel.
    pub(super) fn open(
        number: u32,
        sandbox: u32,
        asked: Beside,
        wall: Duration,
        oom_before: u64,
    ) -> io::Result<(Self, OwnedFd)> {
        let (channel, child_end) = Channel::pair()?;
        let ((stdout, out_end), (stderr, err_end)) = (output_pipe()?, output_pipe()?);
        let (in_end, stdin) = input_pipe()?;
        let guest = Self {
            number,
            sandbox,
            order: Some((asked.work, vec![in_end, out_end, err_end])),
            wall,
            channel,
            pid: 0,
            pidfd: None,
            session: None,
            early: Vec::new(),
            input: Input::new(stdin, asked.window as usize),
            outputs: Outputs::new(stdout, stderr, asked.window, asked.output_bytes),
            arrived: Instant::now(),
            handed: None,
            began: None,
            done: None,
            oom_before,
            cause: None,
            ended: None,
        };
        Ok((guest, child_end))
    }

    /// Takes its process. The pid is 0 if that has ended already.
    pub(super) fn adopt(&mut self, Child { pidfd, .. }: Child) {
        self.pid = pidfd.as_ref().and_then(pid_of).unwrap_or(0).max(0);
        self.pidfd = pidfd;
        let status = procfs::text(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let pids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        self.session = pids.and_then(|pids| pids.split_whitespace().next_back()?.parse().ok());
    }

    /// Sends a signal to its process group.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            let _ = kill_process_group(pid, signal);
        }
    }

    /// Kills its process group.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
        // Until it is in its sandbox, it leads no group.
        if let Some(pidfd) = &self.pidfd {
            let _ = pidfd_send_signal(pidfd, Signal::KILL);
        }
    }

    /// Kills its process group for this reason, unless there was another before.
    pub(super) fn stop(&mut self, cause: Cause) {
        self.kill();
        self.cause.get_or_insert(cause);
    }

    /// When it has taken too long: to begin, or to end.
    pub(super) fn due(&self) -> Option<Instant> {
        if self.ended.is_some() || self.cause.is_some() {
            return None;
        }
        Some(match (self.began, self.handed) {
            (Some(_), Some(handed)) => handed + self.wall,
            _ => self.arrived + BEGIN_TIMEOUT,
        })
    }
}

/// All guests.
pub(crate) struct Guests {
    /// By their numbers, which are no numbers of sandboxes.
    pub(super) by_id: BTreeMap<u32, Guest>,
    /// CPU time of those that have ended.
    pub(super) cpu_before: Duration,
    /// The longest time that any of them may take, in milliseconds.
    pub(super) wall_ms: u64,
    /// Whether their outputs are not read, because too much waits for the worker.
    pub(super) congested: bool,
}

impl Guests {
    pub(in crate::runs) fn new(wall_ms: u64) -> Self {
        Self { by_id: BTreeMap::new(), cpu_before: Duration::ZERO, wall_ms, congested: false }
    }

    pub(in crate::runs) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(in crate::runs) fn contains(&self, id: u32) -> bool {
        self.by_id.contains_key(&id)
    }

    /// The guest with the run of that number.
    pub(in crate::runs) fn of_run(&self, number: u32) -> Option<u32> {
        self.by_id.iter().find(|(_, guest)| guest.number == number).map(|(id, _)| *id)
    }

    /// The guests in that sandbox.
    pub(in crate::runs) fn in_sandbox(&self, sandbox: u32) -> impl Iterator<Item = (u32, &Guest)> {
        self.by_id.iter().filter(move |(_, guest)| guest.sandbox == sandbox).map(|(id, guest)| (*id, guest))
    }

    /// The process sessions of the guests in that sandbox, by their numbers there.
    pub(in crate::runs) fn sessions(&self, sandbox: u32) -> Vec<i32> {
        self.in_sandbox(sandbox).filter_map(|(_, guest)| guest.session).collect()
    }

    /// CPU time of all guests so far, and of what they have started.
    pub(in crate::runs) fn cpu(&self, sandboxes: &Sandboxes) -> Duration {
        let live = self.by_id.values().filter_map(|guest| session_cpu(guest, sandboxes));
        self.cpu_before + live.sum::<Duration>()
    }
}

/// CPU time of the processes of a guest's process session.
pub(super) fn session_cpu(guest: &Guest, sandboxes: &Sandboxes) -> Option<Duration> {
    let (own, handles) = (guest.session?, sandboxes.get(guest.sandbox)?.handles.as_ref()?);
    Some(watch::cpu(&handles.proc_dir, |session| session == own))
}
