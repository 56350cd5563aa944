//! The zygotes of a container: which of them run, and which one a program is forked from.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;

use super::native::NoLanguage;
use super::zygote;
use super::{Child, LANGUAGES, Language, Zygote, ZygoteContext, ZygoteInfo};
use crate::error::{Error, Result};
use crate::frames::{LanguageSetup, Run, Setup};
use crate::inner::Handles;
use crate::io::{Io, Token};
use crate::seccomp::Programs;
use crate::seqpacket::send_with_fds;
use crate::sys::{self, Status};

/// Longest time from a zygote's start until it is ready. Most of it goes into imports.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// Which zygote a sandbox's process is forked from: its number among those of all languages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Flavor(pub(crate) usize);

/// What a zygote's message is about.
pub(crate) enum Heard {
    /// Nothing about a sandbox.
    Nothing,
    /// It has forked the process of that sandbox.
    Forked(u32, Child),
    /// It could not fork the process of that sandbox.
    Failed(u32, String),
}

/// A language that this container runs, and its first zygote.
struct Offer {
    /// `None` for [`NoLanguage`].
    name: Option<&'static str>,
    language: Box<dyn Language>,
    first: Flavor,
}

/// The place of one zygote.
struct Slot {
    /// Position of its language in [`Zygotes::offers`].
    offer: usize,
    running: Option<Zygote>,
    /// Whether sandboxes are made ahead from this zygote: a program has wanted it, or its language asks for that from
    /// the start.
    wanted: bool,
    /// Whether the zygote could not be started. Nothing is forked from it then.
    broken: bool,
}

/// The zygotes of a container.
pub(crate) struct Zygotes {
    context: ZygoteContext,
    offers: Vec<Offer>,
    slots: Vec<Slot>,
    /// What the zygotes could not provide, in words for a person.
    pub(crate) warnings: Vec<String>,
}

impl Zygotes {
    /// The zygotes of the languages in the set-up. None runs yet. `nested` is whether there is an inner wall to fork
    /// into. A language that this container lacks is a warning.
    ///
    /// # Errors
    /// If no language is left.
    pub(crate) fn new(setup: &Setup, nested: bool, programs: Programs) -> Result<Self> {
        let mut zygotes = Self {
            context: ZygoteContext { nested, programs, environment: Vec::new() },
            offers: Vec::new(),
            slots: Vec::new(),
            warnings: Vec::new(),
        };
        for LanguageSetup { name, options } in &setup.languages {
            let known = LANGUAGES.iter().find(|(known, _)| known == name);
            let opened = known.map(|(name, open)| open(options).map(|language| (*name, language)));
            match opened {
                Some(Ok((name, language))) => zygotes.add(Some(name), language),
                Some(Err(e)) => zygotes.warnings.push(format!("{name}: {e}")),
                None => zygotes.warnings.push(format!("{name}: this runner does not know the language")),
            }
        }
        if zygotes.offers.is_empty() {
            return Err(Error::Protocol(format!("no language to run: {}", zygotes.warnings.join("; "))));
        }
        let additions = zygotes.offers.iter().map(|offer| offer.language.additions());
        zygotes.context.environment = zygote::environment(additions);
        // Nothing but a sandbox can be joined.
        if nested && !zygotes.offers.iter().any(|offer| offer.language.is_native()) {
            zygotes.add(None, Box::new(NoLanguage));
        }
        Ok(zygotes)
    }

    fn add(&mut self, name: Option<&'static str>, language: Box<dyn Language>) {
        let (offer, first) = (self.offers.len(), Flavor(self.slots.len()));
        let slot = |n| Slot { offer, running: None, wanted: language.has_spares_at_once(n), broken: false };
        self.slots.extend((0..language.zygotes()).map(slot));
        self.offers.push(Offer { name, language, first });
    }

    /// Starts the zygotes that every container has from the beginning.
    ///
    /// # Errors
    /// If one can't be started.
    pub(crate) fn start_eager(&mut self, io: &Io) -> Result<()> {
        let eager: Vec<Flavor> = self.flavors().filter(|flavor| self.is_eager(*flavor)).collect();
        eager.into_iter().try_for_each(|flavor| self.start(flavor, io))
    }

    fn is_eager(&self, flavor: Flavor) -> bool {
        let offer = self.offer(flavor);
        offer.language.is_eager(flavor.0 - offer.first.0)
    }

    /// All of them: those of each language together, the smallest first.
    pub(crate) fn flavors(&self) -> impl Iterator<Item = Flavor> + use<> {
        (0..self.slots.len()).map(Flavor)
    }

    fn offer(&self, flavor: Flavor) -> &Offer {
        &self.offers[self.slots[flavor.0].offer]
    }

    /// All zygotes of that zygote's language, the smallest first.
    fn same_language(&self, flavor: Flavor) -> impl Iterator<Item = Flavor> + use<> {
        let offer = self.offer(flavor);
        (offer.first.0..offer.first.0 + offer.language.zygotes()).map(Flavor)
    }

    pub(crate) fn get(&self, flavor: Flavor) -> Option<&Zygote> {
        self.slots[flavor.0].running.as_ref()
    }

    /// That zygote's first message; `None` until it is ready.
    pub(crate) fn info(&self, flavor: Flavor) -> Option<&ZygoteInfo> {
        self.get(flavor)?.info.as_ref()
    }

    /// Whether that zygote can be forked from.
    pub(crate) fn is_ready(&self, flavor: Flavor) -> bool {
        self.info(flavor).is_some()
    }

    /// All that run.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Zygote> {
        self.slots.iter().filter_map(|slot| slot.running.as_ref())
    }

    /// The zygote with that pid.
    pub(crate) fn of_pid(&self, pid: i32) -> Option<Flavor> {
        self.flavors().find(|flavor| self.get(*flavor).is_some_and(|zygote| zygote.pid == pid))
    }

    /// Whether nothing can be forked from that zygote, now or later.
    pub(crate) fn is_broken(&self, flavor: Flavor) -> bool {
        self.slots[flavor.0].broken
    }

    /// Whether sandboxes are made ahead from that zygote.
    pub(crate) fn is_wanted(&self, flavor: Flavor) -> bool {
        self.slots[flavor.0].wanted
    }

    /// Name of the language of that zygote.
    pub(crate) fn language(&self, flavor: Flavor) -> &'static str {
        self.offer(flavor).name.unwrap_or_default()
    }

    /// What the names of files with programs of that zygote's language end in.
    pub(crate) fn extension(&self, flavor: Flavor) -> &'static str {
        self.offer(flavor).language.extension()
    }

    /// The directory in which programs start.
    pub(crate) fn workdir(&self) -> &'static str {
        self.context.workdir()
    }

    /// The native zygote, from which what runs beside a session's program is forked. `None` if there is none.
    pub(crate) fn native(&self) -> Option<Flavor> {
        let native = self.offers.iter().find(|offer| offer.language.is_native())?.first;
        (self.context.nested && self.is_ready(native) && !self.is_broken(native)).then_some(native)
    }

    /// Whether an interrupt of a program of that zygote is for the whole process group.
    pub(crate) fn interrupts_group(&self, flavor: Flavor) -> bool {
        self.offer(flavor).language.interrupts_group()
    }

    /// That flavor, or the smallest of its language if its zygote is broken.
    pub(crate) fn or_smallest(&self, flavor: Flavor) -> Flavor {
        if self.is_broken(flavor) { self.offer(flavor).first } else { flavor }
    }

    /// The languages that programs can be written in here, with their versions.
    pub(crate) fn languages(&self) -> BTreeMap<String, String> {
        let version = |offer: &Offer| Some((offer.name?.to_owned(), self.info(offer.first)?.version.clone()));
        self.offers.iter().filter_map(version).collect()
    }

    /// The modules of the preload list that the running zygotes have imported.
    pub(crate) fn preloaded(&self) -> Vec<String> {
        self.iter().filter_map(|zygote| zygote.info.as_ref()).flat_map(|info| info.preloaded.clone()).collect()
    }

    pub(crate) fn start(&mut self, flavor: Flavor, io: &Io) -> Result<()> {
        let offer = self.offer(flavor);
        let zygote = offer.language.start(flavor.0 - offer.first.0, &self.context)?;
        io.watch(&zygote.control, Token::Zygote(flavor.0 as u32), EventFlags::IN)?;
        self.slots[flavor.0].running = Some(zygote);
        Ok(())
    }

    /// Starts that zygote if a program has wanted it. If that fails, the smallest zygote of its language is used in its
    /// place.
    pub(crate) fn start_wanted(&mut self, flavor: Flavor, io: &Io) {
        if self.is_wanted(flavor)
            && self.get(flavor).is_none()
            && let Err(e) = self.start(flavor, io)
        {
            crate::log(&format!("zygote {}: {e}", flavor.0));
            self.slots[flavor.0].broken = true;
        }
    }

    /// Chooses the zygote for a program: the smallest one that has what the program needs. If that zygote is not there,
    /// it is noted as wanted for later programs, and the best one that is there serves this program.
    ///
    /// # Errors
    /// Why no program in that language can run here.
    pub(crate) fn choose(&mut self, run: &Run) -> Result<Flavor, String> {
        let offer = self.offers.iter().find(|offer| offer.name == Some(&*run.language));
        let Some(offer) = offer.filter(|offer| !self.is_broken(offer.first)) else {
            return Err(format!("this container does not run the language {:?}", run.language));
        };
        let first = offer.first;
        let wanted = self.or_smallest(Flavor(first.0 + offer.language.choose(run)));
        self.slots[wanted.0].wanted = true;
        let there = |f: &Flavor| !self.is_broken(*f) && self.is_ready(*f);
        let larger = self.same_language(first).filter(|f| *f >= wanted).find(there);
        Ok(larger.or_else(|| self.same_language(first).filter(|f| *f < wanted).filter(there).last()).unwrap_or(first))
    }

    /// Asks a zygote to fork a process into a sandbox, with its end of its channel; `false` if the zygote is gone.
    pub(crate) fn ask(&self, flavor: Flavor, id: u32, channel: &OwnedFd, sandbox: Option<&Handles>) -> bool {
        let namespaces = sandbox.into_iter().flat_map(|handles| &handles.namespaces);
        let fds: Vec<_> = std::iter::once(channel).chain(namespaces).collect();
        let send = |zygote: &Zygote| send_with_fds(zygote.control.as_fd(), &id.to_le_bytes(), &fds);
        self.get(flavor).is_some_and(|zygote| send(zygote).is_ok())
    }

    /// Receives a message of a zygote.
    pub(crate) fn hear(&mut self, flavor: Flavor, io: &Io) -> Result<Heard> {
        let Some(zygote) = self.slots.get_mut(flavor.0).and_then(|slot| slot.running.as_mut()) else {
            return Ok(Heard::Nothing);
        };
        zygote.heard = Instant::now();
        if !zygote.is_ready() {
            match zygote.control.receive() {
                Ok((bytes, _)) => self.note_ready(flavor, serde_json::from_slice(&bytes)?, io),
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

    /// Handles a zygote's first message. A zygote that is not worth keeping is killed.
    fn note_ready(&mut self, flavor: Flavor, info: ZygoteInfo, io: &Io) {
        self.warnings.extend(info.missing.iter().map(|missing| format!("preload: {missing}")));
        if info.threads > 1 {
            self.warnings.push(format!("preload: a module started {} threads", info.threads - 1));
        }
        let offer = self.offer(flavor);
        let useful = offer.language.is_useful(flavor.0 - offer.first.0, &info);
        if let Some(zygote) = &mut self.slots[flavor.0].running {
            zygote.info = Some(info);
        }
        if !useful {
            self.slots[flavor.0].broken = true;
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

    /// Handles the end of a zygote: starts another one in its place, unless it never became ready. Returns whether
    /// another one was started. If so, the requests that the dead one has not answered are lost.
    ///
    /// # Errors
    /// If the container's first zygote never became ready, or if a zygote that was ready can't be replaced.
    pub(crate) fn died(&mut self, flavor: Flavor, status: Status, io: &Io) -> Result<bool> {
        let Some(dead) = self.slots[flavor.0].running.take() else { return Ok(false) };
        if self.is_broken(flavor) {
            return Ok(false);
        }
        let offer = self.offer(flavor);
        if !dead.is_ready() {
            let text = format!("{} could not become a zygote: {status:?}", offer.language.path());
            if flavor == Flavor(0) {
                return Err(Error::Protocol(text));
            }
            self.warnings.push(text);
            self.slots[flavor.0].broken = true;
            return Ok(false);
        }
        if !offer.language.can_start_late() {
            return Err(Error::Protocol(format!(
                "the zygote of {} ended: {status:?}",
                offer.name.unwrap_or(offer.language.path())
            )));
        }
        crate::log(&format!("a zygote ended ({status:?}) and is started anew"));
        self.start(flavor, io)?;
        Ok(true)
    }

    /// By when the zygotes that are still importing must be ready.
    pub(crate) fn start_deadlines(&self) -> impl Iterator<Item = Instant> {
        self.iter().filter(|zygote| !zygote.is_ready()).map(|zygote| zygote.heard + START_TIMEOUT)
    }

    /// Kills zygotes that take too long for their imports.
    pub(crate) fn check(&self, now: Instant) {
        for zygote in self.iter().filter(|zygote| !zygote.is_ready() && now >= zygote.heard + START_TIMEOUT) {
            sys::kill(zygote.pid);
        }
    }

    /// Whether every zygote that starts with the container is ready, or never will be.
    pub(crate) fn startup_done(&self) -> bool {
        self.flavors().filter(|f| self.is_eager(*f)).all(|f| self.is_broken(f) || self.is_ready(f))
    }
}
