//! Places a run's input files before it starts, and collects the files that it leaves (the harvest) after it has ended
//! and before its [`Exit`] is sent.
//!
//! A fresh sandbox is killed first, so that nothing can change its files any more. A session's processes live on, and
//! the walk over the files is safe against them. The walk takes small steps, and only while the worker keeps up, so
//! that the engine serves everything else meanwhile.

use super::Engine;
use super::cell::Stage;
use super::pending::Pending;
use crate::files::{self, Scope, Seen, Step, Walk};
use crate::frames::{End, Exit, Kind, Why};

/// Steps of a walk in one turn of the engine's loop.
const STEPS: usize = 64;

/// An ended run whose files are being collected.
pub(super) struct Harvest {
    walk: Walk,
    exit: Exit,
    from: From,
}

/// Where the files come from.
enum From {
    /// From the sandbox of that cell, which is not dead yet. Collecting has to wait.
    Dying(u32),
    /// From a dead sandbox.
    Dead,
    /// From a run of the session in that cell.
    Session(u32),
    /// From the session in that cell, of which everything in `/session` is sent.
    Kept(u32),
}

impl Engine {
    /// Writes a run's input files into its sandbox.
    ///
    /// # Errors
    /// How the run ends if a file can't be written.
    pub(super) fn place(&mut self, id: u32, pending: &Pending) -> Result<(), End> {
        let Some(cell) = self.cells.get_mut(&id).filter(|_| !pending.files.is_empty()) else { return Ok(()) };
        let Some(sandbox) = &cell.sandbox else { return Ok(()) };
        files::place(&sandbox.storage, &pending.files, &mut cell.seen)
            .map_err(|(path, error)| End::BadFile { path, reason: error.to_string() })
    }

    /// Ends a run that was about to start in that sandbox. A session lives on. A spare is killed, because it may hold
    /// some of the run's files.
    pub(super) fn refuse_in(&mut self, id: u32, number: u32, end: End) {
        let lives = self.cells.get(&id).is_some_and(|cell| cell.stage == Stage::Idle);
        self.refuse_beside(number, end, lives);
        if let Some(cell) = self.cells.get_mut(&id).filter(|_| !lives) {
            cell.stage = Stage::Ending;
            self.bury(id);
        }
    }

    /// Begins to collect a run's files. Returns the exit if there is nothing to collect, which is nearly always so.
    pub(super) fn harvest(&mut self, id: u32, number: u32, session: bool, mut exit: Exit) -> Option<Exit> {
        let cell = self.cells.get_mut(&id)?;
        let unwanted = self.setup.artifacts.files == 0 || matches!(exit.end, End::Killed | End::NotStarted { .. });
        let scope = if session { Scope::SessionRun } else { Scope::Run };
        let Some(sandbox) = cell.sandbox.as_ref().filter(|s| !unwanted && files::any(&s.storage, scope)) else {
            return Some(exit);
        };
        let opened = sandbox.storage.try_clone().and_then(|storage| {
            let known = std::mem::take(&mut cell.seen);
            Ok(Walk::new(storage, scope, self.setup.artifacts, known)?)
        });
        let walk = match opened {
            Ok(walk) => walk,
            Err(e) => {
                crate::log(&format!("collect the files of run {number}: {e}"));
                exit.left_out.add(b"/workspace/artifacts".to_vec(), Why::Unreadable, None);
                return Some(exit);
            }
        };
        let from = match cell.stage {
            Stage::Ending => {
                // The walk waits until every process of the sandbox is dead.
                self.bury(id);
                From::Dying(id)
            }
            _ => From::Session(id),
        };
        self.harvests.insert(number, Harvest { walk, exit, from });
        None
    }

    /// Begins to send everything that a session keeps. An exit follows, as for a run.
    pub(super) fn keep(&mut self, number: u32, name: &str) {
        let idle = self.sessions.get(name).filter(|id| self.cells.get(id).is_some_and(|c| c.stage == Stage::Idle));
        let Some(&id) = idle.filter(|id| !self.gathers_from(**id)) else { return self.refuse(number, End::NoSession) };
        let storage = self.cells.get(&id).and_then(|c| c.sandbox.as_ref()).map(|s| s.storage.try_clone());
        let walk = storage
            .and_then(|storage| Walk::new(storage.ok()?, Scope::Session, self.setup.artifacts, Seen::default()).ok());
        match walk {
            Some(walk) => {
                let exit = Exit::bare(End::Exited { code: 0 }, true);
                self.harvests.insert(number, Harvest { walk, exit, from: From::Kept(id) });
            }
            None => self.refuse(number, End::NotStarted { reason: "its storage can't be opened".into() }),
        }
    }

    /// Called when every process of that cell's sandbox is dead: its files can be read from now on.
    pub(super) fn read_from_now(&mut self, id: u32) {
        let dying = |harvest: &&mut Harvest| matches!(harvest.from, From::Dying(cell) if cell == id);
        self.harvests.values_mut().filter(dying).for_each(|harvest| harvest.from = From::Dead);
    }

    /// Whether there is something to collect now.
    pub(super) fn gathers(&self) -> bool {
        !self.link.congested() && self.harvests.values().any(|h| !matches!(h.from, From::Dying(_)))
    }

    /// Whether files of the session in that cell are still being collected.
    pub(super) fn gathers_from(&self, id: u32) -> bool {
        self.harvests.values().any(|h| matches!(h.from, From::Session(session) | From::Kept(session) if session == id))
    }

    /// Goes on collecting, for one turn of the loop.
    pub(super) fn gather(&mut self) {
        let due: Vec<u32> =
            self.harvests.iter().filter(|(_, h)| !matches!(h.from, From::Dying(_))).map(|(n, _)| *n).collect();
        for number in due {
            for _ in 0..STEPS {
                if self.link.congested() {
                    return;
                }
                let Some(harvest) = self.harvests.get_mut(&number) else { break };
                match harvest.walk.step(&mut self.chunk) {
                    Step::Worked => {}
                    Step::Data(bytes) => self.link.push(Kind::ArtifactData, number, bytes),
                    Step::Begin(artifact) => drop(self.link.push_json(Kind::Artifact, number, &artifact)),
                    Step::End(end) => drop(self.link.push_json(Kind::ArtifactEnd, number, &end)),
                    Step::Done => self.gathered(number),
                }
            }
        }
    }

    /// Sends the exit of a run whose files are all collected.
    fn gathered(&mut self, number: u32) {
        let Some(Harvest { walk, mut exit, from }) = self.harvests.remove(&number) else { return };
        let (left_out, seen): (_, Seen) = walk.end();
        exit.left_out = left_out;
        if let From::Session(id) = from {
            // The session may have died meanwhile.
            match self.cells.get_mut(&id).filter(|cell| cell.stage == Stage::Idle) {
                Some(cell) => cell.seen = seen,
                None => exit.session_lives = false,
            }
        }
        self.tell_exit(number, &exit);
    }

    /// Stops collecting the files of a run that is killed after its code has ended.
    pub(super) fn cut_short(&mut self, number: u32) {
        if let Some(harvest) = self.harvests.get_mut(&number) {
            harvest.walk.cut();
        }
    }
}
