//! Takes runs from the worker, hands them to sandboxes, and finishes them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventFlags};

use super::active::{self, Active, Cause, Output, Pumped};
use super::baseline::Baseline;
use super::cell::{FLAVORS, Flavor, Stage};
use super::pending::{MOST_LOST, Pending, RunMessage, Slot};
use super::{Engine, Token, memory};
use crate::error::Result;
use crate::frames::{End, Exit, Frame, Kind, Place, Run, ToolResult, Usage};
use crate::sys::{self, Reaped};
use crate::{limits, scan, watch};

impl Engine {
    pub(super) fn on_frame(&mut self, frame: Frame) -> Result<()> {
        let number = frame.run;
        match frame.kind {
            Kind::Run => self.accept(number, &frame),
            Kind::Input => self.inbox.begin(number, frame.parse()?),
            Kind::InputData => self.inbox.fill(number, &frame.body, self.setup.disk_bytes),
            Kind::ToolResult => self.on_tool_result(number, &frame.parse::<ToolResult>()?),
            Kind::Interrupt => {
                if let Some(cell) = self.runs.get(&number).and_then(|id| self.cells.get(id)) {
                    cell.signal(rustix::process::Signal::INT);
                }
            }
            Kind::Kill => match self.pending.iter().position(|p| p.number == number) {
                Some(at) => {
                    self.pending.remove(at);
                    self.refuse(number, End::Killed);
                }
                None => {
                    self.inbox.forget(number);
                    self.cut_short(number);
                    if let Some(&id) = self.runs.get(&number) {
                        self.condemn(id, Cause::Killed);
                    }
                }
            },
            Kind::CloseSession => self.close_session(&String::from_utf8_lossy(&frame.body)),
            Kind::Ping => self.link.push(Kind::Pong, 0, &[]),
            Kind::Verify => self.ask_proof(number),
            Kind::Keep => self.keep(number, &String::from_utf8_lossy(&frame.body)),
            Kind::Shutdown => self.over = Some(0),
            other => {
                return Err(crate::Error::Protocol(format!("a worker does not send {other:?}")));
            }
        }
        Ok(())
    }

    fn accept(&mut self, number: u32, frame: &Frame) {
        let refusal = |reason: String| End::NotStarted { reason };
        let files = match self.inbox.take(number) {
            Ok(files) => files,
            Err(reason) => return self.refuse(number, refusal(reason)),
        };
        if self.wall.is_none() && !files.is_empty() {
            let reason = "files need an inner wall, and this machine allows none";
            return self.refuse(number, refusal(reason.into()));
        }
        let mut run: Run = match frame.parse() {
            Ok(run) => run,
            Err(e) => return self.refuse(number, refusal(format!("the run can't be read: {e}"))),
        };
        if run.language != "python" {
            return self.refuse(number, refusal(format!("unsupported language {:?}", run.language)));
        }
        if self.runs.contains_key(&number) || self.pending.iter().any(|p| p.number == number) {
            return self.refuse(number, refusal(format!("run {number} exists already")));
        }
        match limits::bounded(&run.limits, &self.setup.ceiling) {
            Ok(limits) => run.limits = limits,
            Err(what) => return self.refuse(number, refusal(format!("limit {what} is zero"))),
        }
        let flavor = self.choose(&run);
        self.pending.push_back(Pending { number, run, files, flavor, arrived: Instant::now(), waited: false, lost: 0 });
    }

    /// Chooses the zygote for a program: the smallest one that has what the program imports. If that zygote is not
    /// there, it is noted as wanted for later programs, and the best one that is there serves this program.
    fn choose(&mut self, run: &Run) -> Flavor {
        let wanted = match () {
            () if !self.broken[Flavor::Loaded as usize] && scan::imports_any(&run.code, &self.setup.preload) => {
                Flavor::Loaded
            }
            // Only a session's first program is known here, and many will follow.
            () if matches!(run.place, Place::Session { .. }) || scan::wants_common(&run.code) => Flavor::Common,
            () => Flavor::Bare,
        };
        self.wanted[wanted as usize] = true;
        let there = |f: &Flavor| !self.broken[*f as usize] && self.zygote(*f).is_some_and(|z| z.hatched.is_some());
        let larger = FLAVORS.into_iter().filter(|f| *f >= wanted).find(there);
        larger.or_else(|| FLAVORS.into_iter().filter(|f| *f < wanted).rfind(there)).unwrap_or(Flavor::Bare)
    }

    /// Ends a run with an exit that says only how it ended.
    pub(super) fn refuse(&mut self, number: u32, end: End) {
        self.refuse_beside(number, end, false);
    }

    /// As [`Engine::refuse`], and says whether the run's session lives on.
    pub(super) fn refuse_beside(&mut self, number: u32, end: End, session_lives: bool) {
        let exit = Exit::bare(end, session_lives);
        let _ = self.link.push_json(Kind::Exit, number, &exit);
    }

    /// Whether that run waits for a sandbox to be made, rather than for its session.
    pub(super) fn needs_sandbox(&self, pending: &Pending) -> bool {
        match &pending.run.place {
            Place::Fresh => true,
            Place::Session { session, .. } => !self.sessions.contains_key(session),
        }
    }

    fn slot(&self, pending: &Pending) -> Slot {
        if let Place::Session { session, create } = &pending.run.place {
            match self.sessions.get(session).and_then(|id| Some((*id, self.cells.get(id)?))) {
                Some((id, cell)) if cell.stage == Stage::Idle && !self.gathers_from(id) => return Slot::Here(id),
                Some(_) => return Slot::Wait,
                None if !create => return Slot::Never(End::NoSession),
                None => {}
            }
        }
        let spare = |f: Flavor| self.cells.iter().find(|(_, c)| c.stage == Stage::Spare && c.flavor == f);
        spare(pending.flavor).map_or(Slot::Wait, |(id, _)| Slot::Here(*id))
    }

    /// Starts every waiting run that can start. None can while a sandbox is dying: sandboxes share a network namespace,
    /// where a run could meet a process that is still alive.
    pub(super) fn dispatch(&mut self) {
        let mut at = 0;
        while let Some(pending) = self.pending.get(at) {
            let slot = self.slot(pending);
            if matches!(slot, Slot::Here(_)) && !self.dying.is_empty() {
                at += 1;
                continue;
            }
            let first = !std::mem::replace(&mut self.pending[at].waited, true);
            match slot {
                Slot::Wait => at += 1,
                Slot::Never(end) => {
                    if let Some(pending) = self.pending.remove(at) {
                        self.refuse(pending.number, end);
                    }
                }
                Slot::Here(id) => {
                    if let Some(pending) = self.pending.remove(at)
                        && let Err(pending) = self.hand_over(id, pending, first)
                    {
                        // The sandbox was dead. The code has not started, so another sandbox may take the run.
                        self.pending.insert(at, *pending);
                    }
                }
            }
        }
    }

    /// Gives a run to a sandbox. `Err` returns the run if the sandbox turns out to be dead.
    fn hand_over(&mut self, id: u32, pending: Pending, warm: bool) -> Result<(), Box<Pending>> {
        if let Err(end) = self.place(id, &pending) {
            self.refuse_in(id, pending.number, end);
            return Ok(());
        }
        let Some(cell) = self.cells.get_mut(&id) else { return Err(Box::new(pending)) };
        let session = match &pending.run.place {
            Place::Fresh => None,
            Place::Session { session, .. } => Some(session.clone()),
        };
        let message = RunMessage {
            op: "run",
            code: &pending.run.code,
            env: &pending.run.env,
            tools: &pending.run.tools,
            session: session.is_some(),
            linger: cell.sandbox.is_some(),
            follow: pending.run.follow,
            soft_ms: None,
        };
        let prepared = (|| -> std::io::Result<_> {
            let json = serde_json::to_vec(&message)?;
            let (out, out_end) = active::output_pipe()?;
            let (err, err_end) = active::output_pipe()?;
            let stdin = pending.run.stdin.as_ref().filter(|s| !s.is_empty());
            let (in_end, stdin) = match stdin {
                // Opened for this run alone: locks and flags belong to the open file, and the next run would find them.
                None => (sys::null_device()?, None),
                Some(text) => {
                    let (read, write) = active::input_pipe()?;
                    (read, Some((write, text.clone().into_bytes(), 0)))
                }
            };
            if let Some(hatched) = self.zygotes[cell.flavor as usize].as_ref().and_then(|z| z.hatched.as_ref()) {
                limits::apply_run(cell.pid, &pending.run.limits, &self.setup.ceiling, hatched, session.is_none())?;
            }
            cell.channel.received = 0;
            cell.channel.send(&json, vec![in_end, out_end, err_end])?;
            Ok((out, err, stdin))
        })();
        let (out, err, stdin) = match prepared {
            Ok(pipes) => pipes,
            Err(e) => {
                self.cell_gone(id, &format!("hand a run over: {e}"));
                return Err(Box::new(pending));
            }
        };
        for (pipe, token) in [(&out, Token::Stdout(id)), (&err, Token::Stderr(id))] {
            let flags = if self.congested { EventFlags::empty() } else { EventFlags::IN };
            let _ = epoll::add(&self.epoll, pipe, token.data(), flags);
        }
        let handed = Instant::now();
        let mut run = Active {
            number: pending.number,
            limits: pending.run.limits,
            tools: pending.run.tools.clone(),
            unstarted: None,
            session: session.is_some(),
            warm,
            arrived: pending.arrived,
            handed,
            began: None,
            outputs: [Output { kind: Kind::Stdout, pipe: Some(out) }, Output { kind: Kind::Stderr, pipe: Some(err) }],
            output_bytes: 0,
            stdin,
            calls: std::collections::HashMap::new(),
            last_call: 0,
            cause: None,
            interrupted: false,
            next_cpu_check: handed + Duration::from_millis(pending.run.limits.cpu_ms),
            container_cpu_before: None,
            oom_before: self.counted.oom_kills(),
            next_memory_check: handed + memory::MEMORY_TICK,
            memory_peak: 0,
            memory_over: false,
            done: None,
        };
        if run.feed()
            && let Some((pipe, ..)) = &run.stdin
        {
            let _ = epoll::add(&self.epoll, pipe, Token::Stdin(id).data(), EventFlags::OUT);
        }
        let others = cell.others.look(handed, cell.pid, cell.sandbox.as_ref());
        cell.cpu_before = Baseline::now(cell.pid, cell.sandbox.as_ref(), others);
        cell.stage = Stage::Running;
        cell.active = Some(run);
        if let Some(name) = session {
            cell.session = Some(name.clone());
            self.sessions.insert(name, id);
        }
        self.runs.insert(pending.number, id);
        if let Some(run) = cell.active.as_mut().filter(|r| !r.session) {
            run.unstarted = Some(Box::new(pending));
        }
        if cell.channel.pending() {
            let flags = EventFlags::IN | EventFlags::OUT;
            let _ = epoll::modify(&self.epoll, &cell.channel, Token::Channel(id).data(), flags);
        }
        Ok(())
    }

    /// Removes a cell that could not take a run: a spare is given up, a session is closed.
    fn cell_gone(&mut self, id: u32, reason: &str) {
        match self.cells.get(&id).map(|c| c.stage) {
            Some(Stage::Idle) => self.cell_ended(id, None),
            Some(_) => self.cell_failed(id, reason),
            None => {}
        }
    }

    pub(super) fn on_output(&mut self, id: u32, which: usize) {
        if self.congested {
            return;
        }
        let Some(run) = self.cells.get_mut(&id).and_then(|c| c.active.as_mut()) else { return };
        if run.pump(which, &mut self.link, &mut self.chunk) == Pumped::Over {
            self.condemn(id, Cause::Output);
        }
    }

    pub(super) fn on_stdin(&mut self, id: u32) {
        if let Some(run) = self.cells.get_mut(&id).and_then(|c| c.active.as_mut()) {
            run.feed();
        }
    }

    /// Kills a run. Its [`Exit`] follows when the kernel reports that its process is gone.
    pub(super) fn condemn(&mut self, id: u32, cause: Cause) {
        let Some(cell) = self.cells.get_mut(&id) else { return };
        if let Some(run) = &mut cell.active {
            run.cause.get_or_insert(cause);
            if run.cause == Some(Cause::Output) {
                run.outputs.iter_mut().for_each(|o| o.pipe = None);
            }
        }
        cell.kill();
    }

    /// Sends a run's [`Exit`] at once, before the runner cleans up.
    pub(super) fn tell_exit(&mut self, number: u32, exit: &Exit) {
        if let Err(e) = self.link.push_json(Kind::Exit, number, exit) {
            crate::log(&format!("exit of run {number}: {e}"));
        }
        self.flush();
    }

    fn close_session(&mut self, name: &str) {
        match self.sessions.get(name).and_then(|id| Some((*id, self.cells.get_mut(id)?))) {
            Some((id, cell)) if cell.active.is_some() => self.condemn(id, Cause::Killed),
            Some((id, cell)) => {
                cell.stage = Stage::Ending;
                self.bury(id);
            }
            None => self.link.push(Kind::SessionClosed, 0, name.as_bytes()),
        }
    }

    /// Finishes a run and sends its [`Exit`], after collecting its files if there are any. `reaped` is the kernel's
    /// report on the process; `None` if the process has said `done` and still lives.
    pub(super) fn finish(&mut self, id: u32, reaped: Option<Reaped>) {
        let now = Instant::now();
        if reaped.is_some() {
            // Read what the process said before its end.
            self.on_channel(id, EventFlags::IN);
        }
        let Some(cell) = self.cells.get_mut(&id) else { return };
        let Some(mut run) = cell.active.take() else { return };
        self.runs.remove(&run.number);
        if let Some(mut pending) = run.unstarted.take().filter(|p| run.cause.is_none() && p.lost < MOST_LOST) {
            // The sandbox died before the code started, so another sandbox may take the run.
            cell.stage = Stage::Ending;
            pending.lost += 1;
            return self.pending.push_front(*pending);
        }
        run.drain(&mut self.link, &mut self.chunk);
        let session_lives = reaped.is_none() && run.session;
        cell.stage = if session_lives { Stage::Idle } else { Stage::Ending };
        let oom = self.counted.oom_kills() > run.oom_before;
        let value = run.done.as_mut().and_then(|d| d.value.take());
        let (end, error) = run.judge(reaped.map(|r| r.status), oom);
        let cpu = match &reaped {
            Some(r) => r.cpu,
            None => {
                // 0 for a run of less than a clock tick.
                let children = watch::children_cpu(cell.pid, now - run.handed).max(cell.cpu_before.children);
                sys::cpu_time(cell.pid).unwrap_or_default() + children
            }
        };
        let process = reaped.map_or_else(|| watch::peak_memory(cell.pid), |r| r.max_rss);
        let memory_bytes = run.memory_peak.max(process + memory::stored(cell.sandbox.as_ref()));
        let micros = |d: Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
        let began = run.began.unwrap_or(now);
        let usage = Usage {
            wall_us: micros(now - run.handed),
            cpu_us: micros(cpu.saturating_sub(cell.cpu_before.own + cell.cpu_before.children)),
            memory_bytes,
            output_bytes: run.output_bytes,
        };
        let phases = BTreeMap::from([
            ("acquire".to_string(), micros(run.handed - run.arrived)),
            ("start".to_string(), micros(began - run.handed)),
            ("run".to_string(), micros(now - began)),
            ("collect".to_string(), micros(now.elapsed())),
        ]);
        let value = value.filter(|_| matches!(end, End::Exited { .. }));
        let left_out = Default::default();
        let exit = Exit { end, error, value, usage, phases, warm: run.warm, session_lives, left_out };
        if let Some(exit) = self.harvest(id, run.number, run.session, exit) {
            self.tell_exit(run.number, &exit);
        }
        if self.cells.get(&id).is_some_and(|c| c.stage == Stage::Ending) {
            self.bury(id);
        }
    }
}
