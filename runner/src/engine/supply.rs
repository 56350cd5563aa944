//! Makes zygotes and sandboxes ahead of the jobs, without slowing running jobs down.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventFlags};

use super::baseline::{Baseline, Others};
use super::cell::{Cell, Dying, FLAVORS, Flavor, Stage};
use super::{Engine, Token};
use crate::channel::Channel;
use crate::error::{Context, Error, Result};
use crate::files::Seen;
use crate::frames::{End, Kind};
use crate::inner::{Birth, LOOK};
use crate::sys::{Reaped, Status};
use crate::zygote::{self, Child, Nest, Zygote};
use crate::{limits, log, procfs, scan};

/// For this long, a run has the machine to itself. Spares are made and wanted zygotes are started only when the run has
/// ended or takes longer.
pub(super) const HEAD_START: Duration = Duration::from_millis(5);

/// Longest time that a killed sandbox may take to die. It usually takes milliseconds, but on a busy machine its
/// processes have to wait for a processor.
pub(super) const DEATH: Duration = Duration::from_secs(5);

/// After this many failures in a row, waiting runs are refused.
const MAX_FAILURES: u32 = 3;

impl Engine {
    pub(super) fn zygote(&self, flavor: Flavor) -> Option<&Zygote> {
        self.zygotes[flavor as usize].as_ref()
    }

    /// Number of spares of that flavor.
    pub(super) fn spares(&self, flavor: Flavor) -> usize {
        self.cells.values().filter(|c| c.flavor == flavor && c.stage == Stage::Spare).count()
    }

    pub(super) fn start_zygote(&mut self, flavor: Flavor) -> Result<()> {
        let nest = Nest { python: &self.setup.python, nested: self.wall.is_some(), programs: &self.programs };
        let common: &[&str] = if flavor == Flavor::Bare { &[] } else { &scan::COMMON };
        let preload = if flavor == Flavor::Loaded { self.setup.preload.as_slice() } else { &[] };
        let zygote = nest.start(common, preload)?;
        self.watch(&zygote.control, Token::Zygote(flavor as u32), EventFlags::IN)?;
        self.zygotes[flavor as usize] = Some(zygote);
        Ok(())
    }

    pub(super) fn on_zygote(&mut self, flavor: Flavor) -> Result<()> {
        let Some(zygote) = &mut self.zygotes[flavor as usize] else { return Ok(()) };
        zygote.heard = Instant::now();
        if zygote.hatched.is_none() {
            let Ok((bytes, _)) = zygote.control.receive() else { return self.hang_up(flavor) };
            let hatched: zygote::Hatched = serde_json::from_slice(&bytes)?;
            for missing in &hatched.missing {
                self.warnings.push(format!("preload: {missing}"));
            }
            if hatched.threads > 1 {
                self.warnings.push(format!("preload: a module started {} threads", hatched.threads - 1));
            }
            let useless = flavor == Flavor::Loaded && hatched.preloaded.is_empty();
            zygote.hatched = Some(hatched);
            if useless {
                // Without a module of its list, it would be a second common zygote.
                self.give_up(flavor);
                return self.hang_up(flavor);
            }
            return Ok(());
        }
        match zygote::receive_child(&zygote.control) {
            Ok(Some((id, Ok(child)))) => self.forked(id, child),
            Ok(Some((id, Err(errno)))) => {
                self.cell_failed(id, &format!("fork: {}", std::io::Error::from_raw_os_error(errno)));
            }
            Ok(None) => {}
            Err(_) => return self.hang_up(flavor),
        }
        Ok(())
    }

    /// Gives that flavor's zygote up. Runs that wait for a sandbox of it get one of the bare zygote, which always
    /// exists.
    pub(super) fn give_up(&mut self, flavor: Flavor) {
        self.broken[flavor as usize] = true;
        self.pending.iter_mut().filter(|p| p.flavor == flavor).for_each(|p| p.flavor = Flavor::Bare);
    }

    /// Stops listening to a zygote and kills it. Its end is reaped later.
    fn hang_up(&mut self, flavor: Flavor) -> Result<()> {
        if let Some(zygote) = self.zygote(flavor) {
            let _ = epoll::delete(&self.epoll, &zygote.control);
            crate::sys::kill(zygote.pid);
        }
        Ok(())
    }

    /// Starts another zygote in the dead one's place. Sandboxes that it was forking are given up. A zygote that never
    /// became ready is not replaced; without a bare one the runner ends.
    pub(super) fn zygote_died(&mut self, flavor: Flavor, status: Status) -> Result<()> {
        let Some(dead) = self.zygotes[flavor as usize].take() else { return Ok(()) };
        if self.broken[flavor as usize] {
            return Ok(());
        }
        if dead.hatched.is_none() {
            let text = format!("{} could not become a zygote: {status:?}", self.setup.python);
            if flavor == Flavor::Bare {
                return Err(Error::Protocol(text));
            }
            log(&text);
            self.warnings.push(text);
            self.give_up(flavor);
            return Ok(());
        }
        log(&format!("a zygote ended ({status:?}) and is started anew"));
        let orphans: Vec<u32> = self
            .cells
            .iter()
            .filter(|(_, c)| c.flavor == flavor && matches!(c.stage, Stage::Forking))
            .map(|(id, _)| *id)
            .collect();
        for id in orphans {
            self.cell_failed(id, "its zygote ended");
        }
        self.start_zygote(flavor)
    }

    /// Makes the sandboxes that runs wait for. Makes spares and starts wanted zygotes only if no run is slowed down by
    /// that.
    pub(super) fn replenish(&mut self) -> Result<()> {
        let now = Instant::now();
        if self.retry_at.is_some_and(|at| now < at) {
            return Ok(());
        }
        self.retry_at = None;
        let young = |cell: &Cell| cell.active.as_ref().is_some_and(|a| now - a.handed < HEAD_START);
        // If a run waits for a killed sandbox to die, the processors are left to that.
        let awaits_death = !self.dying.is_empty() && !self.pending.is_empty();
        let quiet = !awaits_death && !self.cells.values().any(young);
        // Without an inner wall the container runs one job only: no later program could use another zygote.
        let pause = quiet && self.wall.is_some() && !self.pending.iter().any(|p| self.needs_sandbox(p));
        for flavor in FLAVORS {
            if self.broken[flavor as usize] {
                continue;
            }
            if pause && self.wanted[flavor as usize] && self.zygote(flavor).is_none() {
                self.start_wanted(flavor);
            }
            if self.zygote(flavor).is_none_or(|z| z.hatched.is_none()) {
                continue;
            }
            let waiting = self.pending.iter().filter(|p| p.flavor == flavor && self.needs_sandbox(p)).count();
            let needed = waiting + if quiet { self.setup.spares as usize } else { 0 };
            let unborn = self.cells.values().filter(|c| c.flavor == flavor && c.stage.unborn()).count();
            let have = self.spares(flavor) + unborn;
            // Two at a time keep both cores of a small machine busy. More would only delay the first one.
            for _ in have..needed.min(have + 2usize.saturating_sub(unborn)) {
                self.conceive(flavor)?;
            }
        }
        Ok(())
    }

    /// Starts a zygote. If that fails, the bare one stands in for it.
    fn start_wanted(&mut self, flavor: Flavor) {
        if let Err(e) = self.start_zygote(flavor) {
            log(&format!("{flavor:?} zygote: {e}"));
            self.give_up(flavor);
        }
    }

    /// Begins to make one sandbox.
    fn conceive(&mut self, flavor: Flavor) -> Result<()> {
        let id = self.next_cell;
        self.next_cell += 1;
        let (channel, child_end) = Channel::pair().step("job's channel")?;
        self.watch(&channel, Token::Channel(id), EventFlags::IN)?;
        self.cells.insert(
            id,
            Cell {
                flavor,
                stage: Stage::Walling,
                since: Instant::now(),
                sandbox: None,
                child_end: Some(child_end),
                channel,
                joined: false,
                pid: 0,
                pidfd: None,
                session: None,
                active: None,
                seen: Seen::default(),
                cpu_before: Baseline::default(),
                others: Others::default(),
            },
        );
        match &self.wall {
            Some(wall) => wall.nursery.send(&id.to_le_bytes(), &[]).step("ask the nursery"),
            None => {
                self.ask_zygote(id);
                Ok(())
            }
        }
    }

    pub(super) fn on_nursery(&mut self) -> Result<()> {
        let Some(wall) = &self.wall else { return Ok(()) };
        let birth = Birth::receive(&wall.nursery).step("hear from the nursery")?;
        if let (LOOK, Err(seen)) = (birth.id, &birth.outcome) {
            return self.looked(seen);
        }
        match birth.outcome {
            Ok(sandbox) => match self.cells.get_mut(&birth.id) {
                Some(cell) => {
                    cell.sandbox = Some(sandbox);
                    self.ask_zygote(birth.id);
                }
                None => sandbox.kill(),
            },
            Err(reason) => self.cell_failed(birth.id, &reason),
        }
        Ok(())
    }

    fn ask_zygote(&mut self, id: u32) {
        let Some(cell) = self.cells.get_mut(&id) else { return };
        let namespaces = cell.sandbox.as_mut().map(|s| std::mem::take(&mut s.namespaces)).unwrap_or_default();
        let fds: Vec<OwnedFd> = cell.child_end.take().into_iter().chain(namespaces).collect();
        cell.stage = Stage::Forking;
        cell.since = Instant::now();
        let sent = self.zygotes[cell.flavor as usize].as_ref().map(|z| z.control.send(&id.to_le_bytes(), &fds));
        if !matches!(sent, Some(Ok(()))) {
            self.cell_failed(id, "its zygote is gone");
        }
    }

    fn forked(&mut self, id: u32, Child { pid, pidfd }: Child) {
        let pid = match &pidfd {
            Some(pidfd) => pid_of(pidfd).unwrap_or(0),
            None if self.wall.is_none() => pid,
            None => 0, // A pid of another namespace is of no use without a pidfd.
        };
        let Some(cell) = self.cells.get_mut(&id) else {
            match pidfd {
                Some(pidfd) => drop(rustix::process::pidfd_send_signal(pidfd, rustix::process::Signal::KILL)),
                None => crate::sys::kill(pid),
            }
            return;
        };
        (cell.pid, cell.pidfd, cell.stage) = (pid, pidfd, Stage::Joining);
        if pid <= 0 {
            return self.cell_failed(id, "its process ended at once");
        }
        // If memory is short, the kernel should kill a job rather than the runner or a zygote.
        let _ = std::fs::write(format!("/proc/{pid}/oom_score_adj"), "900");
        let hatched = self.zygotes[cell.flavor as usize].as_ref().and_then(|z| z.hatched.as_ref());
        let bounded = hatched.map(|h| limits::apply_ceiling(pid, &self.setup.ceiling, self.setup.disk_bytes, h));
        match bounded {
            Some(Ok(())) => self.settled(id),
            Some(Err(e)) => self.cell_failed(id, &format!("set its limits: {e}")),
            None => self.cell_failed(id, "its zygote is gone"),
        }
    }

    /// Makes a sandbox a spare once the zygote has answered and the process itself has said `ready`, in any order.
    pub(super) fn settled(&mut self, id: u32) {
        if let Some(cell) = self.cells.get_mut(&id)
            && cell.joined
            && cell.stage == Stage::Joining
        {
            cell.stage = Stage::Spare;
            self.failures = 0;
        }
    }

    /// Gives up a sandbox that never held a run, and pauses before the next is made. After [`MAX_FAILURES`] in a row,
    /// waiting runs are refused.
    pub(super) fn cell_failed(&mut self, id: u32, reason: &str) {
        let Some(cell) = self.remove(id) else { return };
        if cell.stage == Stage::Ending {
            return;
        }
        log(&format!("a sandbox could not be made: {reason}"));
        self.failures += 1;
        let pause = Duration::from_millis(20 << self.failures.min(6));
        self.retry_at = Some(Instant::now() + pause);
        if self.failures >= MAX_FAILURES {
            while let Some(pending) = self.pending.pop_front() {
                self.refuse(pending.number, End::NotStarted { reason: format!("no sandbox could be made: {reason}") });
            }
        }
    }

    /// Removes a cell whose process or session has ended, after finishing its run. `reaped` is the kernel's report on
    /// the process, if it is reaped.
    pub(super) fn cell_ended(&mut self, id: u32, reaped: Option<Reaped>) {
        let Some(cell) = self.cells.get_mut(&id) else { return };
        if reaped.is_some() {
            cell.pid = 0; // The kernel may give this pid to another process from now on.
        }
        if cell.stage.unborn() || cell.stage == Stage::Spare {
            return self.cell_failed(id, &format!("its process ended: {:?}", reaped.map(|r| r.status)));
        }
        if cell.active.is_some() {
            self.finish(id, reaped);
        }
        let Some(cell) = self.remove(id) else { return };
        if let Some(name) = &cell.session {
            self.sessions.remove(name);
            self.link.push(Kind::SessionClosed, 0, name.as_bytes());
        }
        if self.wall.is_none() {
            self.sweep();
        }
    }

    fn remove(&mut self, id: u32) -> Option<Cell> {
        self.bury(id);
        self.cells.remove(&id)
    }

    /// Kills everything in a cell's sandbox and closes the cell's handles on its files. [`Engine::on_dead`] follows
    /// when all of its processes are dead.
    pub(super) fn bury(&mut self, id: u32) {
        let Some(init) = self.cells.get_mut(&id).and_then(Cell::end) else { return };
        if let Err(e) = self.watch(&init, Token::Dead(id), EventFlags::IN) {
            // Without this watch, nobody would know when the next run may start.
            log(&e.to_string());
            self.over = Some(1);
        }
        self.dying.insert(id, Dying { init, until: Instant::now() + DEATH });
    }

    /// Called when every process of that cell's sandbox is dead.
    pub(super) fn on_dead(&mut self, id: u32) {
        if let Some(dying) = self.dying.remove(&id) {
            let _ = epoll::delete(&self.epoll, dying.init);
        }
        self.read_from_now(id);
    }

    /// The time by which the first of the killed sandboxes must be dead; `None` if none is dying.
    pub(super) fn death_due(&self) -> Option<Instant> {
        self.dying.values().map(|dying| dying.until).min()
    }

    /// Refuses the waiting runs if a killed sandbox has not died in time: their worker has other containers.
    pub(super) fn check_deaths(&mut self, now: Instant) {
        if self.death_due().is_none_or(|due| now < due) {
            return;
        }
        while let Some(pending) = self.pending.pop_front() {
            let reason = format!("the sandbox before it is not dead after {} s", DEATH.as_secs());
            self.refuse(pending.number, End::NotStarted { reason });
        }
    }

    /// Without an inner wall: kills the processes that a job has left behind. Orphans become children of this process.
    fn sweep(&self) {
        for pid in children() {
            let ours = self.zygotes.iter().flatten().any(|z| z.pid == pid) || self.cells.values().any(|c| c.pid == pid);
            if !ours {
                crate::sys::kill(pid);
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
pub(super) fn pid_of(pidfd: impl AsFd) -> Option<i32> {
    let info = procfs::text(format!("/proc/self/fdinfo/{}", pidfd.as_fd().as_raw_fd())).ok()?;
    info.lines().find_map(|l| l.strip_prefix("Pid:")?.trim().parse().ok())
}
