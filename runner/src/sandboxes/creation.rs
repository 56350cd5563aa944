//! Makes sandboxes ahead of the jobs, without slowing running jobs down.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;

use super::deaths::pid_of;
use super::sandbox::{Sandbox, Stage};
use super::{Proof, Sandboxes};
use crate::channel::Channel;
use crate::error::{Context, Result};
use crate::inner::{LOOK, NurseryAnswer};
use crate::io::{Io, Token};
use crate::languages::{Child, Flavor, Heard};
use crate::limits;

/// How long a new run has the machine to itself. Spares are made, and wanted zygotes are started, only when the run has
/// ended or has taken longer than this.
pub(crate) const HEAD_START: Duration = Duration::from_millis(5);

/// Longest time that a step in the making of a sandbox may take before it counts as hung.
pub(super) const STEP_TIMEOUT: Duration = Duration::from_secs(3);

/// After this many failures in a row, waiting runs are refused.
const MAX_FAILURES: u32 = 3;

/// What the runs need, as far as it decides which sandboxes are made.
#[derive(Debug, Default)]
pub(crate) struct Demand {
    /// How many runs wait for a sandbox to be made. The index is the flavor: which zygote the run needs.
    pub(crate) waiting: Vec<usize>,
    /// Whether any run waits, for a sandbox or for its session.
    pub(crate) any_waits: bool,
    /// Whether a run is in its [`HEAD_START`].
    pub(crate) head_start: bool,
}

impl Sandboxes {
    /// Makes the sandboxes that runs wait for. Also makes spares and starts wanted zygotes, but only if this slows down
    /// no run.
    pub(crate) fn replenish(&mut self, demand: &Demand, io: &mut Io) -> Result<()> {
        if self.retry_at.is_some_and(|at| Instant::now() < at) {
            return Ok(());
        }
        self.retry_at = None;
        // If a run waits for a killed sandbox to die, spares must not take the processors from that.
        let awaits_death = !self.dying.is_empty() && demand.any_waits;
        let quiet = !awaits_death && !demand.head_start;
        // Without an inner wall, the container runs only one job, so no later program could use a zygote that starts
        // now.
        let pause = quiet && self.nested() && demand.waiting.iter().all(|n| *n == 0);
        for flavor in self.zygotes.flavors() {
            if self.zygotes.is_broken(flavor) {
                continue;
            }
            if pause {
                self.zygotes.start_wanted(flavor, io);
            }
            if !self.zygotes.is_ready(flavor) {
                continue;
            }
            let needed = demand.waiting[flavor.0]
                + if quiet && self.zygotes.is_wanted(flavor) { self.setup.spares as usize } else { 0 };
            let of_flavor = || self.by_id.values().filter(move |sandbox| sandbox.flavor == flavor);
            let being_made = of_flavor().filter(|sandbox| sandbox.stage.is_being_made()).count();
            let have = of_flavor().filter(|sandbox| sandbox.stage == Stage::Spare).count() + being_made;
            // Making two at a time keeps both cores of a small machine busy. Making more would only delay the first
            // one.
            for _ in have..needed.min(have + 2usize.saturating_sub(being_made)) {
                self.begin_making(flavor, io)?;
            }
        }
        Ok(())
    }

    /// Begins to make one sandbox: the nursery makes its namespaces, and then a zygote forks its process into them.
    fn begin_making(&mut self, flavor: Flavor, io: &mut Io) -> Result<()> {
        let id = self.next_id;
        self.next_id += 1;
        let (channel, child_end) = Channel::pair().step("job's channel")?;
        io.watch(&channel, Token::Channel(id), EventFlags::IN)?;
        self.by_id.insert(id, Sandbox::new(flavor, channel, child_end));
        match &self.wall {
            Some(wall) => wall.nursery.send(&id.to_le_bytes(), &[]).step("ask the nursery"),
            None => {
                self.ask_zygote(id, io);
                Ok(())
            }
        }
    }

    /// Handles an answer of the nursery. It is either about the namespaces of a sandbox, or the nursery's look at
    /// itself, which goes to `proof`.
    pub(crate) fn on_nursery(&mut self, proof: &mut Proof, busy: bool, io: &mut Io) -> Result<()> {
        let Some(wall) = &self.wall else { return Ok(()) };
        let answer = NurseryAnswer::receive(&wall.nursery).step("hear from the nursery")?;
        if let (LOOK, Err(seen)) = (answer.id, &answer.result) {
            return proof.looked(seen, self, busy, io);
        }
        match answer.result {
            Ok(handles) => match self.by_id.get_mut(&answer.id) {
                Some(sandbox) => {
                    sandbox.handles = Some(handles);
                    self.ask_zygote(answer.id, io);
                }
                None => handles.kill(),
            },
            Err(reason) => self.failed(answer.id, &reason, io),
        }
        Ok(())
    }

    fn ask_zygote(&mut self, id: u32, io: &mut Io) {
        let Some(sandbox) = self.by_id.get_mut(&id) else { return };
        let Some(child_end) = sandbox.child_end.take() else { return };
        let asked = self.zygotes.ask(sandbox.flavor, id, &child_end, sandbox.handles.as_ref());
        (sandbox.stage, sandbox.since) = (Stage::Forking, Instant::now());
        if !asked {
            self.failed(id, "its zygote is gone", io);
        }
    }

    /// Asks for one more process in that sandbox, beside its own. Returns its number, and later
    /// [`Sandboxes::on_zygote`] the process.
    ///
    /// # Errors
    /// Why there can be none.
    pub(crate) fn join(&mut self, id: u32, child_end: &OwnedFd) -> Result<u32, String> {
        let native = self.zygotes.native().ok_or("this container has no native zygote")?;
        let handles = self.get(id).and_then(|sandbox| sandbox.handles.as_ref()).ok_or("its sandbox is gone")?;
        let number = self.next_id;
        if !self.zygotes.ask(native, number, child_end, Some(handles)) {
            return Err("its zygote is gone".into());
        }
        self.next_id += 1;
        Ok(number)
    }

    /// Handles a message from a zygote. Returns the number and the process, or why there is none, if it is about no
    /// sandbox's own process.
    pub(crate) fn on_zygote(
        &mut self,
        flavor: Flavor,
        io: &mut Io,
    ) -> Result<Option<(u32, std::result::Result<Child, String>)>> {
        match self.zygotes.hear(flavor, io)? {
            Heard::Nothing => {}
            Heard::Forked(id, child) if self.by_id.contains_key(&id) => self.forked(id, child, io),
            Heard::Failed(id, reason) if self.by_id.contains_key(&id) => self.failed(id, &reason, io),
            Heard::Forked(id, child) => return Ok(Some((id, Ok(child)))),
            Heard::Failed(id, reason) => return Ok(Some((id, Err(reason)))),
        }
        Ok(None)
    }

    fn forked(&mut self, id: u32, Child { pid, pidfd }: Child, io: &mut Io) {
        let pid = match &pidfd {
            Some(pidfd) => pid_of(pidfd).unwrap_or(0),
            None if self.wall.is_none() => pid,
            None => 0, // A pid of another namespace is of no use without a pidfd.
        };
        let Some(sandbox) = self.by_id.get_mut(&id) else { return };
        let flavor = sandbox.flavor;
        (sandbox.pid, sandbox.pidfd, sandbox.stage) = (pid, pidfd, Stage::Joining);
        match self.bound(pid, flavor) {
            Ok(()) => self.note_ready(id),
            Err(reason) => self.failed(id, &reason, io),
        }
    }

    /// Sets the limits of a process that was forked for a sandbox just now.
    ///
    /// # Errors
    /// If it is gone, or its limits can't be set.
    pub(crate) fn bound(&self, pid: i32, flavor: Flavor) -> Result<(), String> {
        if pid <= 0 {
            return Err("its process ended at once".into());
        }
        // If memory runs out, the kernel should kill a job, and not the runner or a zygote.
        let _ = std::fs::write(format!("/proc/{pid}/oom_score_adj"), "900");
        let info = self.zygotes.info(flavor).ok_or("its zygote is gone")?;
        limits::apply_ceiling(pid, &self.setup.ceiling, self.setup.disk_bytes, info)
            .map_err(|e| format!("set its limits: {e}"))
    }

    /// Notes that a sandbox's process has joined the sandbox.
    pub(crate) fn joined(&mut self, id: u32) {
        if let Some(sandbox) = self.by_id.get_mut(&id) {
            sandbox.joined = true;
            self.note_ready(id);
        }
    }

    /// Makes a sandbox a spare once two messages have come, in either order: the zygote's answer, and the `ready` of
    /// the process itself.
    fn note_ready(&mut self, id: u32) {
        if let Some(sandbox) = self.by_id.get_mut(&id)
            && sandbox.joined
            && sandbox.stage == Stage::Joining
        {
            sandbox.stage = Stage::Spare;
            sandbox.inherited = sandbox.resident();
            self.failures = 0;
        }
    }

    /// Gives up a sandbox that never held a run, and pauses before the next one is made. After [`MAX_FAILURES`] in a
    /// row, the runs that wait are refused ([`Self::hopeless()`]).
    pub(crate) fn failed(&mut self, id: u32, reason: &str, io: &mut Io) {
        let Some(sandbox) = self.remove(id, io) else { return };
        if sandbox.stage == Stage::Ending {
            return;
        }
        crate::log(&format!("a sandbox could not be made: {reason}"));
        self.failures += 1;
        let pause = Duration::from_millis(20 << self.failures.min(6));
        self.retry_at = Some(Instant::now() + pause);
        if self.failures >= MAX_FAILURES {
            self.hopeless = Some(format!("no sandbox could be made: {reason}"));
        }
    }

    /// Takes the reason why the waiting runs must be refused. `None` if they need not be, or if the reason was taken
    /// already.
    pub(crate) fn hopeless(&mut self) -> Option<String> {
        self.hopeless.take()
    }
}
