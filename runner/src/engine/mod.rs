//! The runner's loop: one thread, one epoll, several sandboxes.
//!
//! ```text
//! worker ══frames══ Link ── Engine ── Channel ══ job        nursery ─ namespaces ─▶ zygote ─ fork ─▶ spare
//!                             └ pipes: stdout, stderr, stdin ══ job         (made ahead, while nothing waits)
//! ```
//!
//! A *cell* is the engine's record of one sandbox. Nothing here may block on a job: reads from it and writes to it are
//! bounded and buffered.

mod active;
mod baseline;
mod cell;
mod harvest;
mod memory;
mod messages;
mod pending;
mod proof;
mod runs;
mod supply;
mod timers;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};

use crate::cpu::CpuCounter;
use crate::error::{Context, Error, Result};
use crate::files::Inbox;
use crate::frames::{Kind, Ready, Setup, WIRE};
use crate::group::MemoryGroup;
use crate::inner::{Shape, Wall};
use crate::link::Link;
use crate::outer::Outer;
use crate::seccomp::Programs;
use crate::sys;
use crate::zygote::Zygote;

use active::Active;
use cell::{Cell, Dying, FLAVORS, Flavor};
use harvest::Harvest;
use pending::Pending;

/// What an epoll event is about. In the event's 64 bits of data, the upper half is the kind, and the lower half is the
/// number of a cell or a zygote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Worker,
    Signals,
    Nursery,
    Zygote(u32),
    Channel(u32),
    Stdout(u32),
    Stderr(u32),
    Stdin(u32),
    /// Every process of that cell's sandbox is dead.
    Dead(u32),
}

impl Token {
    fn data(self) -> epoll::EventData {
        let (kind, id) = match self {
            Self::Worker => (0, 0),
            Self::Signals => (1, 0),
            Self::Nursery => (2, 0),
            Self::Zygote(n) => (3, n),
            Self::Channel(n) => (4, n),
            Self::Stdout(n) => (5, n),
            Self::Stderr(n) => (6, n),
            Self::Stdin(n) => (7, n),
            Self::Dead(n) => (8, n),
        };
        epoll::EventData::new_u64((kind << 32) | u64::from(id))
    }

    fn of(data: u64) -> Self {
        let id = data as u32;
        match data >> 32 {
            0 => Self::Worker,
            1 => Self::Signals,
            2 => Self::Nursery,
            3 => Self::Zygote(id),
            4 => Self::Channel(id),
            5 => Self::Stdout(id),
            6 => Self::Stderr(id),
            7 => Self::Stdin(id),
            _ => Self::Dead(id),
        }
    }
}

/// The state of the runner.
pub(crate) struct Engine {
    link: Link,
    /// Whether the worker's socket is watched for writing too.
    link_writes: bool,
    /// Whether jobs' outputs are not read, because too much waits for the worker.
    congested: bool,
    epoll: OwnedFd,
    signals: OwnedFd,
    /// Buffer for reads from pipes and sockets, as large as a pipe's own buffer.
    chunk: Box<[u8]>,
    setup: Setup,
    wall: Option<Wall>,
    programs: Programs,
    zygotes: [Option<Zygote>; FLAVORS.len()],
    /// By flavor: whether a program would have been forked from this zygote best.
    wanted: [bool; FLAVORS.len()],
    /// By flavor: whether the zygote could not be started. Nothing is forked from it then.
    broken: [bool; FLAVORS.len()],
    cells: BTreeMap<u32, Cell>,
    next_cell: u32,
    /// Sandboxes that were killed and may not be dead yet, by their cells' numbers.
    dying: BTreeMap<u32, Dying>,
    pending: VecDeque<Pending>,
    /// Input files of runs that have not arrived yet.
    inbox: Inbox,
    /// Ended runs whose files are being collected, by the runs' numbers.
    harvests: BTreeMap<u32, Harvest>,
    /// Cells of sessions, by the sessions' names.
    sessions: HashMap<String, u32>,
    /// Cells of runs that go on, by the runs' numbers.
    runs: HashMap<u32, u32>,
    /// How many sandboxes in a row could not be made.
    failures: u32,
    /// After a failure, no sandbox is made before this time.
    retry_at: Option<Instant>,
    /// Counts the container's memory.
    counted: memory::Counted,
    /// Counts the container's CPU time.
    cpu: Option<CpuCounter>,
    warnings: Vec<String>,
    proof: proof::Proof,
    ready: bool,
    /// The exit status, once the runner is to end.
    over: Option<i32>,
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
        let wall = match setup.nested.then(|| Wall::probe(&shape)) {
            None => None,
            Some(Ok(())) => Some(Wall::raise(&shape)?),
            Some(Err(reason)) => {
                warnings.push(format!(
                    "no inner wall: {reason}; each container runs one job only, and no files go in or out"
                ));
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
        link.unblock().step("unblock the worker's socket")?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).step("epoll")?;
        let mut engine = Self {
            link,
            link_writes: false,
            congested: false,
            epoll,
            signals,
            chunk: vec![0; 65536].into(),
            programs: Programs::compile()?,
            setup,
            wall,
            zygotes: [const { None }; FLAVORS.len()],
            wanted: [false; FLAVORS.len()],
            broken: [false; FLAVORS.len()],
            cells: BTreeMap::new(),
            next_cell: 1,
            dying: BTreeMap::new(),
            pending: VecDeque::new(),
            inbox: Inbox::default(),
            harvests: BTreeMap::new(),
            sessions: HashMap::new(),
            runs: HashMap::new(),
            failures: 0,
            retry_at: None,
            counted: memory::Counted::new(group),
            cpu,
            warnings,
            proof: proof::Proof::default(),
            ready: false,
            over: None,
        };
        engine.watch(&engine.link, Token::Worker, epoll::EventFlags::IN)?;
        engine.watch(&engine.signals, Token::Signals, epoll::EventFlags::IN)?;
        if let Some(wall) = &engine.wall {
            engine.watch(&wall.nursery, Token::Nursery, epoll::EventFlags::IN)?;
        }
        engine.start_zygote(Flavor::Bare)?;
        if engine.setup.preload_eager && !engine.setup.preload.is_empty() {
            engine.start_zygote(Flavor::Loaded)?;
        }
        Ok(engine)
    }

    fn watch(&self, fd: impl AsFd, token: Token, flags: epoll::EventFlags) -> Result<()> {
        epoll::add(&self.epoll, fd, token.data(), flags).step(format!("watch {token:?}"))
    }

    /// Works until the worker leaves or ends the runner. Returns the exit status.
    ///
    /// # Errors
    /// What keeps the runner from going on.
    pub(crate) fn run(&mut self) -> Result<i32> {
        let mut events = Vec::with_capacity(64);
        loop {
            self.dispatch();
            self.replenish()?;
            self.announce()?;
            self.gather();
            self.prove()?;
            self.flush();
            if let Some(code) = self.over {
                return Ok(code);
            }
            let now = Instant::now();
            let timeout = self.next_deadline(now).map(|at| timespec(at.saturating_duration_since(now)));
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e).step("epoll"),
            }
            let mut reap = false;
            for event in &events {
                let (flags, data) = (event.flags, event.data.u64());
                match Token::of(data) {
                    Token::Worker => self.on_worker(flags)?,
                    Token::Signals => reap = true,
                    Token::Nursery => self.on_nursery()?,
                    Token::Zygote(n) => self.on_zygote(FLAVORS[n as usize % FLAVORS.len()])?,
                    Token::Channel(id) => self.on_channel(id, flags),
                    Token::Stdout(id) => self.on_output(id, 0),
                    Token::Stderr(id) => self.on_output(id, 1),
                    Token::Stdin(id) => self.on_stdin(id),
                    Token::Dead(id) => self.on_dead(id),
                }
            }
            // Reap last, so that what a process wrote before its end is read first.
            if reap {
                self.reap()?;
            }
            self.tick(Instant::now())?;
        }
    }

    fn on_worker(&mut self, flags: epoll::EventFlags) -> Result<()> {
        if !flags.contains(epoll::EventFlags::IN) && !flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR)
        {
            return Ok(());
        }
        match self.link.fill(&mut self.chunk) {
            Ok(true) => {}
            // The worker is gone, so everything that runs for it must end.
            Ok(false) => self.over = Some(0),
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => self.over = Some(0),
            Err(e) => return Err(e).step("read from the worker"),
        }
        while self.over.is_none()
            && let Some(frame) = self.link.next().step("frame of the worker")?
        {
            self.on_frame(frame)?;
        }
        Ok(())
    }

    fn reap(&mut self) -> Result<()> {
        if sys::drain_signals(self.signals.as_fd()) {
            self.over = Some(0);
        }
        while let Some(reaped) = sys::wait(-1, false).step("reap")? {
            if self.wall.as_ref().is_some_and(|w| w.pid == reaped.pid) {
                return Err(Error::Protocol(format!("the nursery ended: {:?}", reaped.status)));
            }
            if let Some(flavor) = FLAVORS.into_iter().find(|f| self.zygote(*f).is_some_and(|z| z.pid == reaped.pid)) {
                self.zygote_died(flavor, reaped.status)?;
            } else if let Some(id) = self.cells.iter().find(|(_, c)| c.pid == reaped.pid).map(|(id, _)| *id) {
                self.cell_ended(id, Some(reaped));
            }
        }
        Ok(())
    }

    /// Sends [`Ready`] once everything that the first run needs is there.
    fn announce(&mut self) -> Result<()> {
        let stocked = |flavor: Flavor| {
            self.broken[flavor as usize]
                || self.zygote(flavor).is_some_and(|z| z.hatched.is_some())
                    && (self.setup.spares == 0 || self.spares(flavor) > 0)
        };
        let eager = self.setup.preload_eager && !self.setup.preload.is_empty();
        if self.ready || !stocked(Flavor::Bare) || eager && !stocked(Flavor::Loaded) || !self.knows_clean()? {
            return Ok(());
        }
        let hatched = |flavor: Flavor| self.zygote(flavor).and_then(|z| z.hatched.as_ref());
        let ready = Ready {
            python: hatched(Flavor::Bare).map(|h| format!("Python {}", h.python)).unwrap_or_default(),
            preloaded: hatched(Flavor::Loaded).map(|h| h.preloaded.clone()).unwrap_or_default(),
            warnings: std::mem::take(&mut self.warnings),
            nested: self.wall.is_some(),
            pid: std::process::id(),
            memory_bytes: self.proof.memory,
        };
        self.ready = true;
        self.counted.settle();
        Ok(self.link.push_json(Kind::Ready, 0, &ready)?)
    }

    /// Sends what waits for the worker. If some of it must wait for room, the socket is watched; if too much waits,
    /// jobs' outputs are not read.
    fn flush(&mut self) {
        if self.link.flush().is_err() {
            self.over = Some(0);
            return;
        }
        let waits = self.link.pending();
        if waits != self.link_writes {
            self.link_writes = waits;
            let flags = epoll::EventFlags::IN | if waits { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
            let _ = epoll::modify(&self.epoll, &self.link, Token::Worker.data(), flags);
        }
        if self.link.congested() != self.congested {
            self.congested = !self.congested;
            let flags = if self.congested { epoll::EventFlags::empty() } else { epoll::EventFlags::IN };
            for (id, cell) in &self.cells {
                for (output, token) in
                    cell.active.iter().flat_map(|a| &a.outputs).zip([Token::Stdout(*id), Token::Stderr(*id)])
                {
                    if let Some(pipe) = &output.pipe {
                        let _ = epoll::modify(&self.epoll, pipe, token.data(), flags);
                    }
                }
            }
        }
    }

    /// Tells the worker why the runner ends, if it still listens.
    pub(crate) fn fatal(&mut self, error: &Error) {
        self.link.push(Kind::Fatal, 0, error.to_string().as_bytes());
        let _ = self.link.flush();
    }
}

impl Drop for Engine {
    /// Kills everything that was started. The nursery is pid 1 for all zygotes and sandboxes, so its end is theirs,
    /// too.
    fn drop(&mut self) {
        self.cells.values().for_each(Cell::kill);
        for pid in self.zygotes.iter().flatten().map(|z| z.pid).chain(self.wall.as_ref().map(|w| w.pid)) {
            sys::kill(pid);
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: i64::from(duration.subsec_nanos()) }
}
