//! Takes runs from the worker and hands them to sandboxes.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use rustix::event::epoll::EventFlags;
use rustix::fs::CWD;

use super::Runs;
use super::active::{Active, Pipes};
use super::pending::Pending;
use crate::files::ProgramFile;
use crate::frames::{End, Frame, Place, Run};
use crate::io::{Io, Token};
use crate::sandboxes::{Sandboxes, Stage};
use crate::{files, limits};

/// Whether a waiting run can start.
enum Slot {
    Here(u32),
    Wait,
    Never(End),
}

impl Runs {
    /// Takes a run. It waits until [`Runs::dispatch`] finds a sandbox for it.
    pub(crate) fn accept(&mut self, number: u32, frame: &Frame, sandboxes: &mut Sandboxes, io: &mut Io) {
        match self.read(number, frame, sandboxes) {
            Ok(pending) => self.pending.push_back(pending),
            Err(reason) => io.refuse(number, End::NotStarted { reason }),
        }
    }

    /// Takes a request to run something beside a session's program.
    pub(crate) fn accept_beside(&mut self, number: u32, frame: &Frame, sandboxes: &mut Sandboxes, io: &mut Io) {
        if self.knows(number) {
            let reason = format!("run {number} exists already");
            return io.refuse_beside(number, End::NotStarted { reason }, true);
        }
        self.guests.accept(number, frame, &mut self.occupants, sandboxes, io);
    }

    /// Reads and checks a run. `Err` says why it is refused.
    fn read(&mut self, number: u32, frame: &Frame, sandboxes: &mut Sandboxes) -> Result<Pending, String> {
        let files = self.inbox.take(number)?;
        if !sandboxes.nested() && !files.is_empty() {
            return Err("files need an inner wall, and this machine allows none".into());
        }
        let mut run: Run = frame.parse().map_err(|e| format!("the run can't be read: {e}"))?;
        if self.knows(number) {
            return Err(format!("run {number} exists already"));
        }
        run.limits =
            limits::bounded(&run.limits, &self.setup.ceiling).map_err(|what| format!("limit {what} is zero"))?;
        let flavor = sandboxes.zygotes.choose(&run)?;
        Ok(Pending { number, run, files, flavor, arrived: Instant::now(), waited: false, lost: 0 })
    }

    /// Whether that run waits for a sandbox to be made, rather than for its session.
    pub(super) fn needs_sandbox(&self, pending: &Pending) -> bool {
        pending.session().is_none_or(|name| !self.occupants.sessions.contains_key(name))
    }

    fn slot(&self, pending: &Pending, sandboxes: &Sandboxes) -> Slot {
        if let Place::Session { session, create } = &pending.run.place {
            let other =
                self.occupants.sessions.get(session).and_then(|&id| sandboxes.get(id)).map(|sandbox| sandbox.flavor);
            let other = other.map(|f| sandboxes.zygotes.language(f)).filter(|l| *l != pending.run.language);
            if let Some(language) = other.filter(|_| !pending.run.does_nothing()) {
                return Slot::Never(End::OtherLanguage { language: language.to_owned() });
            }
            match self.occupants.sessions.get(session) {
                Some(&id) if sandboxes.stage(id) == Some(Stage::Idle) && !self.collections.of_session(id) => {
                    return Slot::Here(id);
                }
                Some(_) => return Slot::Wait,
                None if !create => return Slot::Never(End::NoSession),
                None => {}
            }
        }
        sandboxes.spare(sandboxes.zygotes.or_smallest(pending.flavor)).map_or(Slot::Wait, Slot::Here)
    }

    /// Starts every waiting run that can start. None can while a sandbox is dying: sandboxes share a network namespace,
    /// where a run could meet a process that is still alive.
    pub(crate) fn dispatch(&mut self, sandboxes: &mut Sandboxes, io: &mut Io) {
        let mut waiting = VecDeque::new();
        while let Some(mut pending) = self.pending.pop_front() {
            let slot = self.slot(&pending, sandboxes);
            if matches!(slot, Slot::Here(_)) && sandboxes.any_dying() {
                waiting.push_back(pending);
                continue;
            }
            let first = !std::mem::replace(&mut pending.waited, true);
            match slot {
                Slot::Wait => waiting.push_back(pending),
                Slot::Never(end) => {
                    let lives = matches!(end, End::OtherLanguage { .. });
                    io.refuse_beside(pending.number, end, lives);
                }
                Slot::Here(id) => {
                    if let Err(pending) = self.hand_over(id, pending, first, sandboxes, io) {
                        // The sandbox was dead. The code has not started, so another sandbox may take the run.
                        self.pending.push_front(*pending);
                    }
                }
            }
        }
        self.pending = waiting;
    }

    /// Gives a run to a sandbox. `Err` returns the run if the sandbox turns out to be dead.
    fn hand_over(
        &mut self,
        id: u32,
        pending: Pending,
        warm: bool,
        sandboxes: &mut Sandboxes,
        io: &mut Io,
    ) -> Result<(), Box<Pending>> {
        if let Err(end) = self.place(id, &pending, sandboxes) {
            self.refuse_in(id, pending.number, end, sandboxes, io);
            return Ok(());
        }
        let file = self.write_program(id, &pending, sandboxes);
        let pipes = match self.send(id, &pending, &file, sandboxes) {
            Ok(pipes) => pipes,
            Err(e) => {
                self.give_up(id, &format!("hand a run over: {e}"), sandboxes, io);
                return Err(Box::new(pending));
            }
        };
        pipes.watch(id, self.output_flags(), io);
        let mut run = Active::new(&pending, pipes, warm, self.occupants.counted.oom_kills());
        if run.feed()
            && let Some((pipe, ..)) = &run.stdin
        {
            let _ = io.watch(pipe, Token::Stdin(id), EventFlags::OUT);
        }
        let Some(sandbox) = sandboxes.get_mut(id) else { return Err(Box::new(pending)) };
        sandbox.stage = Stage::Running;
        if sandbox.channel.pending() {
            io.rewatch(&sandbox.channel, Token::Channel(id), EventFlags::IN | EventFlags::OUT);
        }
        let occupant = self.occupants.by_sandbox.entry(id).or_default();
        run.session_existed = occupant.session.is_some();
        if let Some(name) = pending.session() {
            self.collections.drop_kept();
            occupant.session = Some(name.to_owned());
            self.occupants.sessions.insert(name.to_owned(), id);
        }
        self.going.insert(pending.number, id);
        let run = occupant.begin(run, sandbox, &self.guests.sessions(id));
        if !run.session {
            run.unstarted = Some(Box::new(pending));
        }
        occupant.programs.prune(storage(id, sandboxes).unwrap_or(CWD));
        Ok(())
    }

    /// Sets a run's limits, and sends it to the process of its sandbox. Returns the run's pipes.
    fn send(&self, id: u32, pending: &Pending, file: &ProgramFile, sandboxes: &mut Sandboxes) -> io::Result<Pipes> {
        let (sandbox, info) = sandboxes.with_zygote(id).ok_or(io::ErrorKind::NotFound)?;
        let message = pending.message(file, sandbox.handles.is_some())?;
        let (pipes, ends) = Pipes::open(pending.run.stdin.as_deref())?;
        if let Some(info) = info {
            let fresh = pending.session().is_none();
            limits::apply_run(sandbox.pid, &pending.run.limits, &self.setup.ceiling, info, fresh)?;
        }
        sandbox.channel.received = 0;
        sandbox.channel.send(&message, ends)?;
        Ok(pipes)
    }

    /// Writes a run's input files into its sandbox.
    ///
    /// # Errors
    /// How the run ends if a file can't be written.
    fn place(&mut self, id: u32, pending: &Pending, sandboxes: &Sandboxes) -> Result<(), End> {
        if pending.files.is_empty() {
            return Ok(());
        }
        let Some(handles) = sandboxes.get(id).and_then(|sandbox| sandbox.handles.as_ref()) else { return Ok(()) };
        let seen = &mut self.occupants.by_sandbox.entry(id).or_default().seen;
        files::place(&handles.storage, &pending.files, seen)
            .map_err(|(path, error)| End::BadFile { path, reason: error.to_string() })
    }

    /// Writes a run's program into its sandbox. A command has no file.
    fn write_program(&mut self, id: u32, pending: &Pending, sandboxes: &Sandboxes) -> ProgramFile {
        let extension = sandboxes.zygotes.extension(pending.flavor);
        if !pending.run.argv.is_empty() {
            return ProgramFile { name: format!("main.{extension}"), written: false };
        }
        let programs = &mut self.occupants.by_sandbox.entry(id).or_default().programs;
        match storage(id, sandboxes) {
            Some(base) => programs.write(base, files::WORKSPACE, extension, &pending.run.code),
            None => programs.write(CWD, sandboxes.zygotes.workdir(), extension, &pending.run.code),
        }
    }

    /// Ends a run that was about to start in that sandbox. A session lives on. A spare is killed, because it may hold
    /// some of the run's files.
    fn refuse_in(&mut self, id: u32, number: u32, end: End, sandboxes: &mut Sandboxes, io: &mut Io) {
        let lives = sandboxes.stage(id) == Some(Stage::Idle);
        io.refuse_beside(number, end, lives);
        if !lives {
            sandboxes.end(id, io);
        }
    }

    /// Removes a sandbox that could not take a run: a spare is given up, a session is closed.
    fn give_up(&mut self, id: u32, reason: &str, sandboxes: &mut Sandboxes, io: &mut Io) {
        match sandboxes.stage(id) {
            Some(Stage::Idle) => self.ended(id, None, sandboxes, io),
            Some(_) => {
                self.occupants.by_sandbox.remove(&id);
                sandboxes.failed(id, reason, io);
            }
            None => {}
        }
    }
}

/// Where a sandbox's files are. `None` without an inner wall.
fn storage(id: u32, sandboxes: &Sandboxes) -> Option<BorrowedFd<'_>> {
    sandboxes.get(id)?.handles.as_ref().map(|handles| handles.storage.as_fd())
}
