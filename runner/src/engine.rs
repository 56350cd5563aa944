//! The runner's loop: one thread, one epoll, several sandboxes.
//!
//! ```text
//! worker ══frames══ Io ── Engine ─┬─ Runs: what waits, what goes on, sessions, files
//!                                 └─ Sandboxes: nursery, zygotes, spares, deaths
//! job ══ channel, stdout, stderr, stdin ══ Runs
//! ```
//!
//! [`Runs`] uses [`Sandboxes`], never the other way round. Nothing here may block on a job: reads from it and writes to
//! it are bounded and buffered.

use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Instant;

use rustix::event::epoll::{Event, EventFlags};

use crate::cpu::CpuCounter;
use crate::error::{Context, Error, Result};
use crate::frames::{Frame, Kind, Ready, Setup, WIRE};
use crate::group::MemoryGroup;
use crate::inner::{Shape, Wall};
use crate::io::{Io, Link, Token};
use crate::languages::Flavor;
use crate::outer::Outer;
use crate::runs::Runs;
use crate::sandboxes::{Proof, Sandboxes};
use crate::seccomp::Programs;
use crate::sys;

/// The state of the runner.
pub(crate) struct Engine {
    /// Dropped first, which kills everything that was started.
    sandboxes: Sandboxes,
    io: Io,
    signals: OwnedFd,
    setup: Rc<Setup>,
    runs: Runs,
    proof: Proof,
    /// What this machine could not provide, in words for a person.
    warnings: Vec<String>,
    ready: bool,
}

impl Engine {
    /// Checks the set-up, builds the inner wall and starts the zygotes.
    ///
    /// # Errors
    /// What keeps the runner from working. The caller tells the worker.
    pub(crate) fn start(link: Link, setup: Setup, socket_dir: Option<String>, outer: Option<Outer>) -> Result<Self> {
        if setup.wire != WIRE {
            return Err(Error::Protocol(format!("worker speaks wire {}, this runner {WIRE}", setup.wire)));
        }
        let mut warnings = Vec::new();
        let foreign = outer.is_none();
        let (group, cpu, covered) = match outer {
            Some(outer) => {
                warnings.extend(outer.warnings);
                (outer.memory, outer.cpu, outer.covered)
            }
            None => (MemoryGroup::of_container(), CpuCounter::of_container(), Vec::new()),
        };
        let signals = sys::signal_fd(&[libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP]).step("signalfd")?;
        let _ = rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1));
        let shape = Shape { disk_bytes: setup.disk_bytes, foreign, socket_dir, covered };
        let wall = inner_wall(&setup, &shape, &mut warnings)?;
        let io = Io::new(link)?;
        io.watch(&signals, Token::Signals, EventFlags::IN)?;
        let setup = Rc::new(setup);
        let sandboxes = Sandboxes::new(setup.clone(), wall, Programs::compile()?, &io)?;
        let runs = Runs::new(setup.clone(), group, cpu);
        Ok(Self { io, signals, setup, sandboxes, runs, proof: Proof::default(), warnings, ready: false })
    }

    /// Works until the worker leaves or ends the runner. Returns the exit status.
    ///
    /// # Errors
    /// What keeps the runner from going on.
    pub(crate) fn run(&mut self) -> Result<i32> {
        let mut events = Vec::with_capacity(64);
        loop {
            self.runs.dispatch(&mut self.sandboxes, &mut self.io);
            self.sandboxes.replenish(&self.runs.demand(&self.sandboxes), &mut self.io)?;
            self.runs.refuse_hopeless(&mut self.sandboxes, &mut self.io);
            self.announce()?;
            self.runs.gather(&self.sandboxes, &mut self.io);
            self.proof.prove(&self.sandboxes, self.runs.busy(), &mut self.io)?;
            self.io.flush();
            self.runs.heed_congestion(&self.io);
            if let Some(code) = self.io.over {
                return Ok(code);
            }
            let now = Instant::now();
            let timeout = self.deadline(now).map(|at| at.saturating_duration_since(now));
            self.io.wait(&mut events, timeout)?;
            self.handle(&events)?;
            let now = Instant::now();
            self.runs.tick(now, &self.sandboxes, &mut self.io);
            self.sandboxes.check(now, &mut self.io);
        }
    }

    /// When there is something to do without an event.
    fn deadline(&self, now: Instant) -> Option<Instant> {
        let runs = self.runs.deadline(now, &self.sandboxes, &self.io);
        runs.into_iter().chain(self.sandboxes.deadline()).chain(self.proof.deadline(&self.sandboxes)).min()
    }

    fn handle(&mut self, events: &[Event]) -> Result<()> {
        let Self { io, sandboxes, runs, proof, .. } = self;
        let (mut worker, mut reap) = (false, false);
        for event in events {
            let (flags, data) = (event.flags, event.data.u64());
            match Token::of(data) {
                Token::Worker => worker = flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR),
                Token::Signals => reap = true,
                Token::Nursery => sandboxes.on_nursery(proof, runs.busy(), io)?,
                Token::Zygote(n) => {
                    if let Some((id, forked)) = sandboxes.on_zygote(Flavor(n as usize), io)? {
                        runs.guests.on_forked(id, forked, &mut runs.occupants, sandboxes, io);
                    }
                }
                Token::Channel(id) => runs.on_channel(id, flags, sandboxes, io),
                Token::Stdout(id) => runs.on_output(id, 0, sandboxes, io),
                Token::Stderr(id) => runs.on_output(id, 1, sandboxes, io),
                Token::Stdin(id) => runs.on_stdin(id, io),
                Token::Dead(id) => {
                    sandboxes.on_dead(id, io);
                    runs.on_dead(id);
                }
            }
        }
        runs.refuse_hopeless(sandboxes, io);
        if worker {
            self.on_worker()?;
        }
        // Reap last, so that what a process wrote before its end is read first.
        if reap { self.reap() } else { Ok(()) }
    }

    fn on_worker(&mut self) -> Result<()> {
        self.io.fill()?;
        while self.io.over.is_none()
            && let Some(frame) = self.io.link.next().step("frame of the worker")?
        {
            self.on_frame(&frame)?;
        }
        Ok(())
    }

    fn on_frame(&mut self, frame: &Frame) -> Result<()> {
        let Self { io, sandboxes, runs, .. } = self;
        let (number, name) = (frame.run, || String::from_utf8_lossy(&frame.body));
        let (guests, occupants) = (&mut runs.guests, &mut runs.occupants);
        match frame.kind {
            Kind::Run => runs.accept(number, frame, sandboxes, io),
            Kind::Input => runs.inbox.begin(number, frame.parse()?),
            Kind::Part => runs.inbox.begin_part(number, frame.parse()?),
            Kind::InputData | Kind::PartData => runs.inbox.fill(number, &frame.body, self.setup.disk_bytes),
            Kind::Beside => runs.accept_beside(number, frame, sandboxes, io),
            Kind::Stdin => guests.on_input(number, Some(&frame.body), occupants, sandboxes, io),
            Kind::StdinEnd => guests.on_input(number, None, occupants, sandboxes, io),
            Kind::Credit => guests.on_credit(number, frame.parse()?, occupants, sandboxes, io),
            Kind::Signal => guests.signal(number, frame.parse()?),
            Kind::ToolResult => runs.on_tool_result(number, frame, sandboxes, io)?,
            Kind::Charge => runs.charge(number),
            Kind::Wake => runs.wake(number, sandboxes, io),
            Kind::Interrupt => runs.interrupt(number, sandboxes, io),
            Kind::Kill => runs.kill(number, sandboxes, io),
            Kind::CloseSession => runs.close_session(&name(), sandboxes, io),
            Kind::Ping => io.link.push(Kind::Pong, 0, &[]),
            Kind::Verify => {
                runs.drop_kept();
                self.proof.ask(number);
            }
            Kind::Checkpoint => runs.checkpoint(number, &frame.parse()?, sandboxes, io),
            Kind::Shutdown => io.over = Some(0),
            other => return Err(Error::Protocol(format!("a worker does not send {other:?}"))),
        }
        Ok(())
    }

    fn reap(&mut self) -> Result<()> {
        if sys::drain_signals(self.signals.as_fd()) {
            self.io.over = Some(0);
        }
        while let Some(reaped) = sys::wait(-1, false).step("reap")? {
            if self.sandboxes.helper_ended(&reaped, &mut self.io)? {
                continue;
            }
            match self.sandboxes.of_pid(reaped.pid) {
                Some(id) => self.runs.ended(id, Some(reaped), &mut self.sandboxes, &mut self.io),
                None => {
                    let Runs { guests, occupants, .. } = &mut self.runs;
                    guests.ended(reaped, occupants, &self.sandboxes, &mut self.io);
                }
            }
        }
        self.runs.on_children(&self.sandboxes, &mut self.io);
        Ok(())
    }

    /// Sends [`Ready`] once everything that the first run needs is there.
    fn announce(&mut self) -> Result<()> {
        if self.ready {
            // The worker has got the warnings before these with `Ready`. These are about zygotes that started later.
            self.sandboxes.zygotes.warnings.drain(..).for_each(|warning| crate::log(&warning));
            return Ok(());
        }
        if !self.sandboxes.stocked() || !self.proof.knows_clean(&self.sandboxes, self.runs.busy())? {
            return Ok(());
        }
        self.warnings.append(&mut self.sandboxes.zygotes.warnings);
        let ready = Ready {
            languages: self.sandboxes.zygotes.languages(),
            preloaded: self.sandboxes.zygotes.preloaded(),
            warnings: std::mem::take(&mut self.warnings),
            nested: self.sandboxes.nested(),
            pid: std::process::id(),
            memory_bytes: self.proof.memory,
        };
        self.ready = true;
        self.runs.set_memory_baseline();
        Ok(self.io.link.push_json(Kind::Ready, 0, &ready)?)
    }

    /// Tells the worker why the runner ends, if it still listens.
    pub(crate) fn fatal(&mut self, error: &Error) {
        self.io.link.push(Kind::Fatal, 0, error.to_string().as_bytes());
        let _ = self.io.link.flush();
    }
}

/// Builds the inner wall, if the set-up wants one and this machine allows it. Notes in `warnings` what is missing.
fn inner_wall(setup: &Setup, shape: &Shape, warnings: &mut Vec<String>) -> Result<Option<Wall>> {
    let wall = match setup.nested.then(|| Wall::probe(shape)) {
        None => None,
        Some(Ok(())) => Some(Wall::raise(shape)?),
        Some(Err(reason)) => {
            warnings
                .push(format!("no inner wall: {reason}; each container runs one job only, and no files go in or out"));
            None
        }
    };
    if wall.is_none() {
        // Jobs then share our user and namespaces: keep our memory out of their reach.
        sys::set_dumpable(false);
    }
    if wall.is_some() && !crate::limits::counts_per_namespace() {
        warnings.push("this kernel (before 5.14) has no limit on a sandbox's processes but the container's".into());
    }
    Ok(wall)
}
