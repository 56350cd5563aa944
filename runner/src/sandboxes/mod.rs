//! Sandboxes: how they are made ahead of runs, how they end, and the proof that nothing of them is left.
//!
//! ```text
//! nursery ─ namespaces ─▶ zygote ─ fork ─▶ the process joins them ─▶ spare ─▶ running ◀─▶ idle (a session) ─▶ ending
//! ```
//!
//! What uses a sandbox (a run or a session) is the concern of [`crate::runs`], not of this module.

mod creation;
mod deaths;
mod proof;
mod sandbox;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;

pub(crate) use creation::{Demand, HEAD_START};
pub(crate) use deaths::{DEATH_TIMEOUT, pid_of};
pub(crate) use proof::Proof;
pub(crate) use sandbox::{Sandbox, Stage};

use crate::error::{Context, Error, Result};
use crate::frames::Setup;
use crate::inner::Wall;
use crate::io::{Io, Token};
use crate::languages::{Flavor, ZygoteInfo, Zygotes};
use crate::seccomp::Programs;
use crate::sys::{self, Reaped};
use creation::STEP_TIMEOUT;
use sandbox::Dying;

/// The sandboxes of a container, and what they are made with.
pub(crate) struct Sandboxes {
    setup: Rc<Setup>,
    wall: Option<Wall>,
    pub(crate) zygotes: Zygotes,
    /// All sandboxes, by their numbers.
    by_id: BTreeMap<u32, Sandbox>,
    next_id: u32,
    /// Sandboxes that were killed and may not be dead yet, by their numbers.
    dying: BTreeMap<u32, Dying>,
    /// CPU time of zygotes that have ended.
    helpers_before: Duration,
    /// How many sandboxes in a row could not be made.
    failures: u32,
    /// After a failure, no sandbox is made before this time.
    retry_at: Option<Instant>,
    /// Why no sandbox can be made, after too many failures in a row.
    hopeless: Option<String>,
}

impl Sandboxes {
    /// Watches the nursery and starts the first zygotes.
    ///
    /// # Errors
    /// If a zygote can't be started.
    pub(crate) fn new(setup: Rc<Setup>, wall: Option<Wall>, programs: Programs, io: &Io) -> Result<Self> {
        if let Some(wall) = &wall {
            io.watch(&wall.nursery, Token::Nursery, EventFlags::IN)?;
        }
        let zygotes = Zygotes::new(&setup, wall.is_some(), programs)?;
        let mut sandboxes = Self {
            setup,
            wall,
            zygotes,
            by_id: BTreeMap::new(),
            next_id: 1,
            dying: BTreeMap::new(),
            helpers_before: Duration::ZERO,
            failures: 0,
            retry_at: None,
            hopeless: None,
        };
        sandboxes.zygotes.start_eager(io)?;
        Ok(sandboxes)
    }

    /// Whether there is an inner wall.
    pub(crate) fn nested(&self) -> bool {
        self.wall.is_some()
    }

    pub(crate) fn get(&self, id: u32) -> Option<&Sandbox> {
        self.by_id.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Sandbox> {
        self.by_id.get_mut(&id)
    }

    /// A sandbox, and what the zygote that it was forked from has said of itself.
    pub(crate) fn with_zygote(&mut self, id: u32) -> Option<(&mut Sandbox, Option<&ZygoteInfo>)> {
        let sandbox = self.by_id.get_mut(&id)?;
        let info = self.zygotes.info(sandbox.flavor);
        Some((sandbox, info))
    }

    /// The stage of a sandbox; `None` if it is gone.
    pub(crate) fn stage(&self, id: u32) -> Option<Stage> {
        self.by_id.get(&id).map(|sandbox| sandbox.stage)
    }

    /// A spare of that flavor, the one that was made first.
    pub(crate) fn spare(&self, flavor: Flavor) -> Option<u32> {
        self.by_id.iter().find(|(_, s)| s.stage == Stage::Spare && s.flavor == flavor).map(|(id, _)| *id)
    }

    /// Whether everything is there that a container makes before its first run.
    pub(crate) fn stocked(&self) -> bool {
        let zygotes = &self.zygotes;
        let serves = |f: Flavor| zygotes.is_ready(f) && zygotes.is_wanted(f) && !zygotes.is_broken(f);
        zygotes.startup_done()
            && (self.setup.spares == 0 || zygotes.flavors().all(|f| !serves(f) || self.spare(f).is_some()))
    }

    /// The sandbox whose process has that pid.
    pub(crate) fn of_pid(&self, pid: i32) -> Option<u32> {
        self.by_id.iter().find(|(_, sandbox)| sandbox.pid == pid).map(|(id, _)| *id)
    }

    /// Takes note of the end of the nursery or of a zygote; `false` if that process was neither.
    ///
    /// # Errors
    /// If the runner can't go on without it.
    pub(crate) fn helper_ended(&mut self, ended: &Reaped, io: &mut Io) -> Result<bool> {
        if self.wall.as_ref().is_some_and(|w| w.pid == ended.pid) {
            return Err(Error::Protocol(format!("the nursery ended: {:?}", ended.status)));
        }
        let Some(flavor) = self.zygotes.of_pid(ended.pid) else { return Ok(false) };
        self.helpers_before += ended.cpu;
        if self.zygotes.died(flavor, ended.status, io)? {
            let forking = |sandbox: &Sandbox| sandbox.flavor == flavor && sandbox.stage == Stage::Forking;
            let orphans: Vec<u32> = self.by_id.iter().filter(|(_, s)| forking(s)).map(|(id, _)| *id).collect();
            orphans.into_iter().for_each(|id| self.failed(id, "its zygote ended", io));
        }
        Ok(true)
    }

    /// CPU time of the runner, the nursery and all zygotes so far.
    pub(crate) fn helpers_cpu(&self) -> Duration {
        let own = [std::process::id() as i32].into_iter();
        let live = own.chain(self.wall.as_ref().map(|wall| wall.pid)).chain(self.zygotes.iter().map(|z| z.pid));
        self.helpers_before + live.filter_map(sys::cpu_time).sum::<Duration>()
    }

    /// When [`Sandboxes::check`] or [`Sandboxes::replenish`] has something to do next.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let being_made = self
            .by_id
            .values()
            .filter(|sandbox| sandbox.stage.is_being_made())
            .map(|sandbox| sandbox.since + STEP_TIMEOUT);
        self.retry_at.into_iter().chain(being_made).chain(self.zygotes.start_deadlines()).min()
    }

    /// Gives up sandboxes whose making hangs, and kills zygotes that hang.
    pub(crate) fn check(&mut self, now: Instant, io: &mut Io) {
        let hangs = |sandbox: &Sandbox| sandbox.stage.is_being_made() && now >= sandbox.since + STEP_TIMEOUT;
        let stalled: Vec<u32> = self.by_id.iter().filter(|(_, s)| hangs(s)).map(|(id, _)| *id).collect();
        for id in stalled {
            if let Some(sandbox) = self.by_id.get(&id).filter(|sandbox| sandbox.stage == Stage::Forking)
                && let Some(zygote) = self.zygotes.get(sandbox.flavor)
            {
                // When its end is reaped, another one takes its place.
                sys::kill(zygote.pid);
            }
            self.failed(id, &format!("no progress in {} s", STEP_TIMEOUT.as_secs()), io);
        }
        self.zygotes.check(now);
    }

    /// Asks the nursery to look at itself, for a proof.
    fn ask_to_look(&self) -> Result<()> {
        let Some(wall) = &self.wall else { return Ok(()) };
        wall.nursery.send(&crate::inner::LOOK.to_le_bytes(), &[]).step("ask the nursery to look")
    }
}

impl Drop for Sandboxes {
    /// Kills everything that was started. The nursery is pid 1 for all zygotes and sandboxes, so its end is theirs,
    /// too.
    fn drop(&mut self) {
        self.by_id.values().for_each(Sandbox::kill);
        for pid in self.zygotes.iter().map(|z| z.pid).chain(self.wall.as_ref().map(|w| w.pid)) {
            sys::kill(pid);
        }
    }
}
