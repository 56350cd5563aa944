//! Measures memory: how much a run's sandbox holds in all, and how many processes the kernel has killed for memory.
//!
//! The kernel's limits on a process count the private memory of that process alone. So the sandbox is measured as a
//! whole: the private memory of all its processes, and memory files. The container's control group knows the sum of the
//! memory files, whether a process maps them or not. Without such a group, what the processes show is counted. Files in
//! the sandbox's storage count against the disk's limit instead. What the sandbox's process held before its first run,
//! because its zygote does, counts neither against the limit nor in the usage.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};

use crate::group::MemoryGroup;
use crate::inner::Handles;
use crate::sandboxes::Sandbox;
use crate::sys::Reaped;
use crate::watch;

/// The memory counters of the container's control group, and what was there before the first run.
pub(super) struct Counted {
    group: Option<MemoryGroup>,
    /// The zygotes' `/tmp`, where they may leave files.
    tmp: Option<OwnedFd>,
    /// Bytes of memory files that were there before the first run, without those in `tmp`.
    own: u64,
}

impl Counted {
    pub(super) fn new(group: Option<MemoryGroup>) -> Self {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Self { group, tmp: rustix::fs::open("/tmp", flags, Mode::empty()).ok(), own: 0 }
    }

    /// Notes what is there before the first run.
    pub(super) fn set_baseline(&mut self) {
        let shared = self.group.as_ref().and_then(MemoryGroup::shared).unwrap_or(0);
        self.own = shared.saturating_sub(self.in_tmp());
    }

    fn in_tmp(&self) -> u64 {
        self.tmp.as_ref().map_or(0, watch::stored)
    }

    /// Bytes of the sandbox's memory files, storage included; `None` where no group counts them.
    fn shared(&self) -> Option<u64> {
        Some(self.group.as_ref()?.shared()?.saturating_sub(self.own + self.in_tmp()))
    }

    /// OOM kills in this container so far; 0 without a group.
    pub(super) fn oom_kills(&self) -> u64 {
        self.group.as_ref().map_or(0, MemoryGroup::oom_kills)
    }

    /// Measures what a sandbox holds. The sum of what each process sees is cheap and nearly always enough. If it is
    /// above the limit, it is measured exactly. `collecting` is whether files of an ended run are being collected.
    fn held(&self, handles: &Handles, limit: u64, collecting: bool) -> MemoryUse {
        let stored = watch::stored(&handles.storage);
        // While a run's files are collected, its storage may still be there, and the group counts it.
        let counted = if collecting { None } else { self.shared() };
        let files = |mapped: u64| match counted {
            Some(bytes) => bytes.saturating_sub(stored),
            None => mapped + watch::anonymous_files(&handles.proc_dir),
        };
        let mut memory = watch::memory(&handles.proc_dir);
        if memory.private + files(memory.shared) > limit
            && let Some(exact) = watch::shared_once(&handles.proc_dir, counted.is_none())
        {
            memory = exact;
        }
        let charged = memory.private + files(memory.shared);
        MemoryUse { stored, charged, sure: counted.is_none() || memory.private > limit }
    }
}

/// Shortest time between two checks of a sandbox's memory. Most runs end before the first one.
const TICK: Duration = Duration::from_millis(25);

/// The time until the next check is at least this many times as long as the last check took.
const PART: u32 = 20;

/// Longest time between two checks where no control group bounds what a sandbox takes meanwhile, unless a check takes
/// more than half of it: then it is twice what the check took.
const UNBOUNDED_TICK: Duration = Duration::from_millis(250);

/// Watches the memory of one sandbox.
pub(super) struct MemoryWatch {
    /// When to check next.
    pub(super) next: Instant,
    /// The most that the sandbox was seen to hold of what counts against the limit, in bytes.
    pub(super) peak: u64,
    /// The most that the files in its storage were seen to take, in bytes.
    pub(super) files: u64,
    /// Pages of files that the sandbox's process was last seen to have, in bytes.
    mapped: u64,
    /// Whether the last check found more than the limit.
    over: bool,
}

impl MemoryWatch {
    /// A watch that begins now.
    pub(super) fn new(now: Instant) -> Self {
        Self { next: now + TICK, peak: 0, files: 0, mapped: 0, over: false }
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// Checks the sandbox. Returns whether it certainly holds more than the limit, beyond what it holds before it
    /// begins (`before`). `collecting` is as in [`Counted::held`].
    pub(super) fn check(
        &mut self,
        now: Instant,
        sandbox: &Sandbox,
        limit: u64,
        before: u64,
        counted: &Counted,
        collecting: bool,
    ) -> bool {
        let held = sandbox.handles.as_ref().map(|handles| counted.held(handles, limit + before, collecting));
        self.mapped = sandbox.resident().files;
        let took = now.elapsed();
        let rest = TICK.max(took * PART);
        self.next = now + if counted.group.is_some() { rest } else { rest.min(UNBOUNDED_TICK.max(took * 2)) };
        let Some(held) = held else { return false };
        self.files = self.files.max(held.stored);
        let charged = held.charged.saturating_sub(before);
        self.peak = self.peak.max(charged);
        let over = charged > limit;
        // If the excess may belong to another sandbox, two checks in a row must find it: the control group may still
        // count what the last sandbox held.
        let again = std::mem::replace(&mut self.over, over);
        over && (again || held.sure)
    }

    /// Takes note of the private memory that the sandbox's process held at most, and of its files, at the end of a run.
    /// `reaped` is the kernel's report on the process, once it has ended.
    pub(super) fn finish(&mut self, sandbox: &Sandbox, reaped: Option<&Reaped>) {
        let (peak, mapped) = match reaped {
            Some(reaped) => (reaped.max_rss, self.mapped.max(sandbox.inherited.files)),
            None => {
                let now = sandbox.resident();
                (now.peak, now.files)
            }
        };
        // It has written to some page at least, if only to a copy of one that its zygote has, too.
        self.peak = self.peak.max(peak.saturating_sub(mapped + sandbox.inherited.private)).max(watch::PAGE);
        let stored = sandbox.handles.as_ref().map_or(0, |handles| watch::stored(&handles.storage));
        self.files = self.files.max(stored);
    }
}

/// What a check of a sandbox found, in bytes.
struct MemoryUse {
    /// Files in its storage.
    stored: u64,
    /// Everything else. This counts against the limit.
    charged: u64,
    /// Whether `charged` certainly belongs to this sandbox.
    sure: bool,
}
