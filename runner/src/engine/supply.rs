//! Makes zygotes and sandboxes, ahead of the jobs and out of their way.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventFlags};

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

/// A run younger than this has the machine to itself: the next sandbox is made, and a zygote that it wants started, after it or once it
/// takes longer.
pub(super) const HEAD_START: Duration = Duration::from_millis(5);

/// A sandbox that was killed is dead within milliseconds; on a busy machine it may have to wait for its turn.
pub(super) const DEATH: Duration = Duration::from_secs(5);

/// Failures in a row after which waiting runs are told.
const MAX_FAILURES: u32 = 3;

impl Engine {
    pub(super) fn zygote(&self, flavor: Flavor) -> Option<&Zygote> {
        self.zygotes[flavor as usize].as_ref()
    }

    /// Spare sandboxes of that flavor.
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
                // It would be a second common one.
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

    /// There will be no such zygote: what waits for a sandbox of it gets a bare one, which there always is.
    pub(super) fn give_up(&mut self, flavor: Flavor) {
        self.broken[flavor as usize] = true;
        self.pending.iter_mut().filter(|p| p.flavor == flavor).for_each(|p| p.flavor = Flavor::Bare);
    }

    /// A zygote closed its socket: its end follows, if it is not there already.
    fn hang_up(&mut self, flavor: Flavor) -> Result<()> {
        if let Some(zygote) = self.zygote(flavor) {
            let _ = epoll::delete(&self.epoll, &zygote.control);
            crate::sys::kill(zygote.pid);
        }
        Ok(())
    }

    /// Puts another in its place; what it was just making is made anew.
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

    /// Makes as many sandboxes as are waited for, and the spares where that is in nobody's way.
    pub(super) fn replenish(&mut self) -> Result<()> {
        let now = Instant::now();
        if self.retry_at.is_some_and(|at| now < at) {
            return Ok(());
        }
        self.retry_at = None;
        let young = |cell: &Cell| cell.active.as_ref().is_some_and(|a| now - a.handed < HEAD_START);
        // A run that waits for the last one's sandbox to die needs the machine for that.
        let awaits_death = !self.dying.is_empty() && !self.pending.is_empty();
        let quiet = !awaits_death && !self.cells.values().any(young);
        // Without an inner wall there is no program to come that would be forked from another zygote.
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
            // Two at a time keep both of a small machine's cores busy; more would only slow the first one down.
            for _ in have..needed.min(have + 2usize.saturating_sub(unborn)) {
                self.conceive(flavor)?;
            }
        }
        Ok(())
    }

    /// Starts a zygote that the bare one can stand in for.
    fn start_wanted(&mut self, flavor: Flavor) {
        if let Err(e) = self.start_zygote(flavor) {
            log(&format!("{flavor:?} zygote: {e}"));
            self.give_up(flavor);
        }
    }

    /// Begins one sandbox.
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
                cpu_before: Duration::ZERO,
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
            None => 0, // A number of another namespace; it came without its handle.
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
        // The kernel should take a job before the runner or a zygote when memory is short.
        let _ = std::fs::write(format!("/proc/{pid}/oom_score_adj"), "900");
        let hatched = self.zygotes[cell.flavor as usize].as_ref().and_then(|z| z.hatched.as_ref());
        let bounded = hatched.map(|h| limits::apply_ceiling(pid, &self.setup.ceiling, self.setup.disk_bytes, h));
        match bounded {
            Some(Ok(())) => self.settled(id),
            Some(Err(e)) => self.cell_failed(id, &format!("set its limits: {e}")),
            None => self.cell_failed(id, "its zygote is gone"),
        }
    }

    /// Both the zygote's word and the process's own are needed, and either may come first.
    pub(super) fn settled(&mut self, id: u32) {
        if let Some(cell) = self.cells.get_mut(&id)
            && cell.joined
            && cell.stage == Stage::Joining
        {
            cell.stage = Stage::Spare;
            self.failures = 0;
        }
    }

    /// Gives a sandbox up that never held a run.
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

    /// The sandbox's process ended (or its session did): the last word on it.
    pub(super) fn cell_ended(&mut self, id: u32, reaped: Option<Reaped>) {
        let Some(cell) = self.cells.get_mut(&id) else { return };
        if reaped.is_some() {
            cell.pid = 0; // The kernel may give the number to another from now on.
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

    /// Kills all that runs in a cell, for good; [`Engine::on_dead`] follows. Its files are out of reach from now on.
    pub(super) fn bury(&mut self, id: u32) {
        let Some(init) = self.cells.get_mut(&id).and_then(Cell::end) else { return };
        if let Err(e) = self.watch(&init, Token::Dead(id), EventFlags::IN) {
            // Nobody would know when the next run may start.
            log(&e.to_string());
            self.over = Some(1);
        }
        self.dying.insert(id, Dying { init, until: Instant::now() + DEATH });
    }

    /// Every process of that cell is dead.
    pub(super) fn on_dead(&mut self, id: u32) {
        if let Some(dying) = self.dying.remove(&id) {
            let _ = epoll::delete(&self.epoll, dying.init);
        }
        self.read_from_now(id);
    }

    /// When a sandbox that was killed should be dead at the latest; `None` where all are.
    pub(super) fn death_due(&self) -> Option<Instant> {
        self.dying.values().map(|dying| dying.until).min()
    }

    /// What waits for a sandbox that does not die is told so: its worker has other containers.
    pub(super) fn check_deaths(&mut self, now: Instant) {
        if self.death_due().is_none_or(|due| now < due) {
            return;
        }
        while let Some(pending) = self.pending.pop_front() {
            let reason = format!("the sandbox before it is not dead after {} s", DEATH.as_secs());
            self.refuse(pending.number, End::NotStarted { reason });
        }
    }

    /// Without an inner wall: kills what a job has left behind. Orphans are this process's children.
    fn sweep(&self) {
        for pid in children() {
            let ours = self.zygotes.iter().flatten().any(|z| z.pid == pid) || self.cells.values().any(|c| c.pid == pid);
            if !ours {
                crate::sys::kill(pid);
            }
        }
    }
}

/// Children of this process.
fn children() -> Vec<i32> {
    let me = std::process::id();
    if let Ok(list) = std::fs::read_to_string(format!("/proc/{me}/task/{me}/children")) {
        return list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
    }
    // A kernel without that list (gVisor): by each process's own word on its parent, which follows the name in brackets.
    let parent = |pid: i32| {
        let stat = procfs::text(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| parent(*pid) == Some(me)).collect()
}

/// The pid behind a pidfd, in this process's pid namespace; not positive once it was reaped.
pub(super) fn pid_of(pidfd: impl AsFd) -> Option<i32> {
    let info = procfs::text(format!("/proc/self/fdinfo/{}", pidfd.as_fd().as_raw_fd())).ok()?;
    info.lines().find_map(|l| l.strip_prefix("Pid:")?.trim().parse().ok())
}
