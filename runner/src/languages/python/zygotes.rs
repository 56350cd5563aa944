//! The zygotes of a container: which of them run, and which one a program is forked from.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;

use super::scan;
use super::zygote::{self, Child, Hatched, Nest, Zygote};
use crate::error::{Error, Result};
use crate::frames::{Place, Run, Setup};
use crate::io::{Io, Token};
use crate::seccomp::Programs;
use crate::sys::{self, Status};

/// Longest time that a zygote may take for its imports.
const HATCHING: Duration = Duration::from_secs(120);

/// Which zygote a sandbox's process is forked from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Flavor {
    /// An interpreter with the harness only.
    Bare = 0,
    /// Also holds the modules of the standard library that many programs import ([`scan::COMMON`]).
    Common = 1,
    /// Also holds the modules of the preload list.
    Loaded = 2,
}

/// From the smallest to the largest: each holds what those before it hold.
pub(crate) const FLAVORS: [Flavor; 3] = [Flavor::Bare, Flavor::Common, Flavor::Loaded];

/// What a zygote has said.
pub(crate) enum Heard {
    /// Nothing about a sandbox.
    Nothing,
    /// It has forked the process of that sandbox.
    Forked(u32, Child),
    /// It could not fork the process of that sandbox.
    Failed(u32, String),
}

/// The zygotes of a container.
pub(crate) struct Zygotes {
    setup: Rc<Setup>,
    nested: bool,
    programs: Programs,
    running: [Option<Zygote>; FLAVORS.len()],
    /// By flavor: whether a program would have been forked from this zygote best.
    wanted: [bool; FLAVORS.len()],
    /// By flavor: whether the zygote could not be started. Nothing is forked from it then.
    broken: [bool; FLAVORS.len()],
    /// What the zygotes could not provide, in words for a person.
    pub(crate) warnings: Vec<String>,
}

impl Zygotes {
    /// None runs yet. `nested` is whether there is an inner wall to fork into.
    pub(crate) fn new(setup: Rc<Setup>, nested: bool, programs: Programs) -> Self {
        Self {
            setup,
            nested,
            programs,
            running: [const { None }; FLAVORS.len()],
            wanted: [false; FLAVORS.len()],
            broken: [false; FLAVORS.len()],
            warnings: Vec::new(),
        }
    }

    pub(crate) fn get(&self, flavor: Flavor) -> Option<&Zygote> {
        self.running[flavor as usize].as_ref()
    }

    /// What that zygote has said of itself, once it can be forked from.
    pub(crate) fn hatched(&self, flavor: Flavor) -> Option<&Hatched> {
        self.get(flavor)?.hatched.as_ref()
    }

    /// All that run.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Zygote> {
        self.running.iter().flatten()
    }

    /// The zygote with that pid.
    pub(crate) fn of_pid(&self, pid: i32) -> Option<Flavor> {
        FLAVORS.into_iter().find(|flavor| self.get(*flavor).is_some_and(|zygote| zygote.pid == pid))
    }

    /// Whether nothing can be forked from that zygote, now or later.
    pub(crate) fn is_broken(&self, flavor: Flavor) -> bool {
        self.broken[flavor as usize]
    }

    /// That flavor, or the bare one if its zygote is broken. The bare zygote always exists.
    pub(crate) fn or_bare(&self, flavor: Flavor) -> Flavor {
        if self.is_broken(flavor) { Flavor::Bare } else { flavor }
    }

    pub(crate) fn start(&mut self, flavor: Flavor, io: &Io) -> Result<()> {
        let nest = Nest { python: &self.setup.python, nested: self.nested, programs: &self.programs };
        let common: &[&str] = if flavor == Flavor::Bare { &[] } else { &scan::COMMON };
        let preload = if flavor == Flavor::Loaded { self.setup.preload.as_slice() } else { &[] };
        let zygote = nest.start(common, preload)?;
        io.watch(&zygote.control, Token::Zygote(flavor as u32), EventFlags::IN)?;
        self.running[flavor as usize] = Some(zygote);
        Ok(())
    }

    /// Starts that zygote if a program has wanted it. If that fails, the bare one stands in for it.
    pub(crate) fn start_wanted(&mut self, flavor: Flavor, io: &Io) {
        if self.wanted[flavor as usize]
            && self.get(flavor).is_none()
            && let Err(e) = self.start(flavor, io)
        {
            crate::log(&format!("{flavor:?} zygote: {e}"));
            self.broken[flavor as usize] = true;
        }
    }

    /// Chooses the zygote for a program: the smallest one that has what the program imports. If that zygote is not
    /// there, it is noted as wanted for later programs, and the best one that is there serves this program.
    pub(crate) fn choose(&mut self, run: &Run) -> Flavor {
        let wanted = match () {
            () if !self.is_broken(Flavor::Loaded) && scan::imports_any(&run.code, &self.setup.preload) => {
                Flavor::Loaded
            }
            // Only a session's first program is known here, and many will follow.
            () if matches!(run.place, Place::Session { .. }) || scan::wants_common(&run.code) => Flavor::Common,
            () => Flavor::Bare,
        };
        self.wanted[wanted as usize] = true;
        let there = |f: &Flavor| !self.is_broken(*f) && self.hatched(*f).is_some();
        let larger = FLAVORS.into_iter().filter(|f| *f >= wanted).find(there);
        larger.or_else(|| FLAVORS.into_iter().filter(|f| *f < wanted).rfind(there)).unwrap_or(Flavor::Bare)
    }

    /// Asks a zygote to fork the process of a sandbox; `false` if the zygote is gone.
    pub(crate) fn ask(&self, flavor: Flavor, id: u32, fds: &[OwnedFd]) -> bool {
        self.get(flavor).is_some_and(|zygote| zygote.control.send(&id.to_le_bytes(), fds).is_ok())
    }

    /// Takes a message of a zygote.
    pub(crate) fn hear(&mut self, flavor: Flavor, io: &Io) -> Result<Heard> {
        let Some(zygote) = &mut self.running[flavor as usize] else { return Ok(Heard::Nothing) };
        zygote.heard = Instant::now();
        if zygote.hatched.is_none() {
            match zygote.control.receive() {
                Ok((bytes, _)) => self.hatch(flavor, serde_json::from_slice(&bytes)?, io),
                Err(_) => self.hang_up(flavor, io),
            }
            return Ok(Heard::Nothing);
        }
        Ok(match zygote::receive_child(&zygote.control) {
            Ok(Some((id, Ok(child)))) => Heard::Forked(id, child),
            Ok(Some((id, Err(errno)))) => {
                Heard::Failed(id, format!("fork: {}", std::io::Error::from_raw_os_error(errno)))
            }
            Ok(None) => Heard::Nothing,
            Err(_) => {
                self.hang_up(flavor, io);
                Heard::Nothing
            }
        })
    }

    /// Takes a zygote's first message.
    fn hatch(&mut self, flavor: Flavor, hatched: Hatched, io: &Io) {
        self.warnings.extend(hatched.missing.iter().map(|missing| format!("preload: {missing}")));
        if hatched.threads > 1 {
            self.warnings.push(format!("preload: a module started {} threads", hatched.threads - 1));
        }
        let useless = flavor == Flavor::Loaded && hatched.preloaded.is_empty();
        if let Some(zygote) = &mut self.running[flavor as usize] {
            zygote.hatched = Some(hatched);
        }
        if useless {
            // Without a module of its list, it would be a second common zygote.
            self.broken[flavor as usize] = true;
            self.hang_up(flavor, io);
        }
    }

    /// Stops listening to a zygote and kills it. Its end is reaped later.
    fn hang_up(&mut self, flavor: Flavor, io: &Io) {
        if let Some(zygote) = self.get(flavor) {
            io.unwatch(&zygote.control);
            sys::kill(zygote.pid);
        }
    }

    /// Starts another zygote in a dead one's place. Returns whether it did: what the dead one was forking is lost then.
    /// A zygote that never became ready is not replaced.
    ///
    /// # Errors
    /// If there is no bare zygote from now on.
    pub(crate) fn died(&mut self, flavor: Flavor, status: Status, io: &Io) -> Result<bool> {
        let Some(dead) = self.running[flavor as usize].take() else { return Ok(false) };
        if self.is_broken(flavor) {
            return Ok(false);
        }
        if dead.hatched.is_none() {
            let text = format!("{} could not become a zygote: {status:?}", self.setup.python);
            if flavor == Flavor::Bare {
                return Err(Error::Protocol(text));
            }
            self.warnings.push(text);
            self.broken[flavor as usize] = true;
            return Ok(false);
        }
        crate::log(&format!("a zygote ended ({status:?}) and is started anew"));
        self.start(flavor, io)?;
        Ok(true)
    }

    /// By when the zygotes that are still importing must be ready.
    pub(crate) fn hatching_until(&self) -> impl Iterator<Item = Instant> {
        self.iter().filter(|zygote| zygote.hatched.is_none()).map(|zygote| zygote.heard + HATCHING)
    }

    /// Kills zygotes that take too long for their imports.
    pub(crate) fn check(&self, now: Instant) {
        for zygote in self.iter().filter(|zygote| zygote.hatched.is_none() && now >= zygote.heard + HATCHING) {
            sys::kill(zygote.pid);
        }
    }
}
