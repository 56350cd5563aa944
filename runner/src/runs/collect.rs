//! Collects the files that a run leaves, after it has ended and before its [`Exit`] is sent, and those of checkpoints.
//!
//! A fresh sandbox is killed first, so that nothing can change its files any more. A session's processes live on, and
//! the walk over the files is safe against them. The walk takes small steps, and only while the worker keeps up, so
//! that the engine serves everything else meanwhile.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use crate::files::{self, Growth, Scope, Seen, Step, Tree, Walk};
use crate::frames::{ArtifactLimits, Checkpoint, End, Exit, Kind, Why};
use crate::io::Io;
use crate::sandboxes::{Sandboxes, Stage};

/// Steps of a walk in one turn of the engine's loop.
const STEPS: usize = 64;

/// A run that has ended, and whose exit is not sent yet.
pub(super) struct Ended {
    /// Its sandbox.
    pub(super) id: u32,
    pub(super) number: u32,
    /// Whether it was a session's.
    pub(super) session: bool,
    pub(super) exit: Exit,
}

/// An ended run, or a session, whose files are being collected.
struct Collection {
    walk: Walking,
    exit: Exit,
    from: From,
}

/// What goes on.
enum Walking {
    /// The artifacts of a run.
    Artifacts(Box<Walk>),
    /// A checkpoint of a session.
    Checkpoint(Tree),
}

/// Where the files come from.
enum From {
    /// From that sandbox, which is not dead yet. Collecting has to wait.
    Dying(u32),
    /// From a dead sandbox.
    Dead,
    /// From a run of the session in that sandbox.
    Session(u32),
    /// From the session in that sandbox, of which a checkpoint is taken.
    Checkpoint(u32),
}

/// The files of a session that was killed. They are kept so that the worker can take a last checkpoint.
struct Remains {
    session: String,
    from: From,
    storage: OwnedFd,
}

/// A run whose files are all collected.
pub(super) struct Collected {
    pub(super) exit: Exit,
    /// The session's sandbox, if the run was one of a session, and the session's files that the worker knows now.
    pub(super) session: Option<(u32, Seen)>,
}

/// The ended runs whose files are being collected, by their numbers.
pub(super) struct Collections {
    bounds: ArtifactLimits,
    going: BTreeMap<u32, Collection>,
    /// Those of the session that was killed last.
    remains: Option<Remains>,
}

impl Collections {
    pub(super) fn new(bounds: ArtifactLimits) -> Self {
        Self { bounds, going: BTreeMap::new(), remains: None }
    }

    /// Begins to collect a run's files. Returns the exit if there is nothing to collect, which is nearly always so.
    /// `seen` is what the worker knows of a session's files.
    pub(super) fn begin(
        &mut self,
        Ended { id, number, session, mut exit }: Ended,
        seen: &mut Seen,
        sandboxes: &mut Sandboxes,
        io: &mut Io,
    ) -> Option<Exit> {
        let sandbox = sandboxes.get(id)?;
        let unwanted =
            self.bounds.files == 0 || matches!(exit.end, End::Killed | End::NotStarted { .. } | End::NoSession);
        let scope = if session { Scope::SessionRun } else { Scope::Run };
        let Some(handles) = sandbox.handles.as_ref().filter(|h| !unwanted && files::any(&h.storage)) else {
            return Some(exit);
        };
        let opened = handles.storage.try_clone().and_then(|storage| {
            let known = std::mem::take(seen);
            Ok(Walk::new(storage, scope, self.bounds, known)?)
        });
        let walk = match opened {
            Ok(walk) => walk,
            Err(e) => {
                crate::log(&format!("collect the files of run {number}: {e}"));
                exit.left_out.add(b"/workspace/artifacts".to_vec(), Why::Unreadable, None);
                return Some(exit);
            }
        };
        let from = match sandbox.stage {
            Stage::Ending => {
                // The walk waits until every process of the sandbox is dead.
                sandboxes.destroy(id, io);
                From::Dying(id)
            }
            _ => From::Session(id),
        };
        self.going.insert(number, Collection { walk: Walking::Artifacts(Box::new(walk)), exit, from });
        None
    }

    /// Begins a checkpoint of the session in that sandbox. An exit follows, as for a run.
    pub(super) fn checkpoint(&mut self, id: u32, number: u32, wanted: &Checkpoint, sandboxes: &Sandboxes, io: &mut Io) {
        let handles = sandboxes.get(id).and_then(|sandbox| sandbox.handles.as_ref());
        let storage = handles.and_then(|handles| handles.storage.try_clone().ok());
        self.grow(number, storage, From::Checkpoint(id), wanted, io);
    }

    /// Begins a last checkpoint of a session that was killed. An exit follows, as for a run.
    pub(super) fn last_checkpoint(&mut self, number: u32, wanted: &Checkpoint, io: &mut Io) {
        match self.remains.take_if(|remains| remains.session == wanted.session) {
            Some(Remains { from, storage, .. }) => self.grow(number, Some(storage), from, wanted, io),
            None => io.refuse(number, End::NoSession),
        }
    }

    fn grow(&mut self, number: u32, storage: Option<OwnedFd>, from: From, wanted: &Checkpoint, io: &mut Io) {
        match storage.and_then(|storage| Tree::new(storage, wanted).ok()) {
            Some(tree) => {
                let exit = Exit::bare(End::Exited { code: 0 }, matches!(from, From::Checkpoint(_)));
                self.going.insert(number, Collection { walk: Walking::Checkpoint(tree), exit, from });
            }
            None => io.refuse(number, End::NotStarted { reason: "its storage can't be opened".into() }),
        }
    }

    /// Keeps the files of the session in that sandbox, which was killed and is not dead yet.
    pub(super) fn keep(&mut self, id: u32, session: &str, storage: &OwnedFd) {
        let remains = |storage| Remains { session: session.to_owned(), from: From::Dying(id), storage };
        self.remains = storage.try_clone().ok().map(remains);
    }

    /// Drops the files that were kept of a session that was killed.
    pub(super) fn drop_kept(&mut self) {
        self.remains = None;
    }

    /// Called when every process of that sandbox is dead: its files can be read from now on.
    pub(super) fn read_from_now(&mut self, id: u32) {
        let going = self.going.values_mut().map(|collection| &mut collection.from);
        let all = going.chain(self.remains.as_mut().map(|remains| &mut remains.from));
        all.filter(|from| matches!(from, From::Dying(dying) if *dying == id)).for_each(|from| *from = From::Dead);
    }

    /// Whether files of any run are being collected.
    pub(super) fn any(&self) -> bool {
        !self.going.is_empty()
    }

    /// Whether there is something to collect now.
    pub(super) fn any_due(&self) -> bool {
        self.going.values().any(|h| !matches!(h.from, From::Dying(_)))
    }

    /// Whether files of the session in that sandbox are still being collected.
    pub(super) fn of_session(&self, id: u32) -> bool {
        self.going
            .values()
            .any(|h| matches!(h.from, From::Session(session) | From::Checkpoint(session) if session == id))
    }

    /// The runs whose files can be collected now.
    pub(super) fn due(&self) -> Vec<u32> {
        self.going.iter().filter(|(_, h)| !matches!(h.from, From::Dying(_))).map(|(number, _)| *number).collect()
    }

    /// Goes on collecting the files of a run, for one turn of the loop, while the worker keeps up. Returns the exit and
    /// what belongs to it once all are collected.
    pub(super) fn step(&mut self, number: u32, io: &mut Io) -> Option<Collected> {
        for _ in 0..STEPS {
            if io.link.congested() {
                return None;
            }
            match &mut self.going.get_mut(&number)?.walk {
                Walking::Artifacts(walk) => match walk.step(&mut io.chunk) {
                    Step::Worked => {}
                    Step::Data(bytes) => io.link.push(Kind::ArtifactData, number, bytes),
                    Step::Begin(artifact) => drop(io.link.push_json(Kind::Artifact, number, &artifact)),
                    Step::End(end) => drop(io.link.push_json(Kind::ArtifactEnd, number, &end)),
                    Step::Done => return self.done(number),
                },
                Walking::Checkpoint(tree) => match tree.step(&mut io.chunk) {
                    Growth::Worked => {}
                    Growth::Part(part) => drop(io.link.push_json(Kind::Part, number, &part)),
                    Growth::Data(bytes) => io.link.push(Kind::PartData, number, bytes),
                    Growth::Done => return self.done(number),
                },
            }
        }
        None
    }

    fn done(&mut self, number: u32) -> Option<Collected> {
        let Collection { walk, mut exit, from } = self.going.remove(&number)?;
        let seen = match walk {
            Walking::Artifacts(walk) => {
                let (left_out, seen) = walk.end();
                exit.left_out = left_out;
                seen
            }
            Walking::Checkpoint(tree) => {
                match tree.end() {
                    Ok(left_out) => exit.left_out = left_out,
                    Err(failure) => exit.end = End::Failed(failure),
                }
                Seen::default()
            }
        };
        let session = if let From::Session(id) = from { Some((id, seen)) } else { None };
        Some(Collected { exit, session })
    }

    /// Stops collecting the files of a run that is killed after its code has ended.
    pub(super) fn cut_short(&mut self, number: u32) {
        if let Some(collection) = self.going.get_mut(&number) {
            match &mut collection.walk {
                Walking::Artifacts(walk) => walk.cut(),
                Walking::Checkpoint(tree) => tree.cut(),
            }
        }
    }
}
