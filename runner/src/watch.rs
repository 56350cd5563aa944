//! Measures what a sandbox uses now. Its own `/proc` shows all of its processes and no others; the init is left out.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, openat, readlinkat, statat};

use crate::procfs;

/// Clock ticks per second: the kernel's user-visible constant on all architectures we run on.
const TICKS: u64 = 100;

/// A clock tick.
pub(crate) const TICK: Duration = Duration::from_millis(1000 / TICKS);

/// Bytes of a page.
pub(crate) const PAGE: u64 = 4096;

/// Bytes of what `stat` calls a block.
const BLOCK: u64 = 512;

/// Memory of a sandbox's processes, in bytes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Private memory: heaps, stacks, private mappings.
    pub(crate) private: u64,
    /// Memory files, as far as they are mapped.
    pub(crate) shared: u64,
}

/// User and system time of a sandbox's processes, of the children that these have waited for, and of the orphans that
/// its init has reaped, in steps of a clock tick. Live processes count if their process session (`setsid`) is `wanted`.
pub(crate) fn cpu_with_orphans(proc_dir: impl AsFd, wanted: impl Fn(i32) -> bool) -> Duration {
    let mut before = orphans_cpu(&proc_dir);
    for _ in 0..3 {
        let live = cpu(&proc_dir, &wanted);
        let after = orphans_cpu(&proc_dir);
        if after == before {
            return live + after;
        }
        // An orphan that ended meanwhile may be in both.
        before = after;
    }
    before + cpu(&proc_dir, &wanted)
}

/// User and system time of the orphans that a sandbox's init has reaped, in steps of a clock tick.
pub(crate) fn orphans_cpu(proc_dir: impl AsFd) -> Duration {
    let stat = read(&proc_dir, "1", "stat").unwrap_or_default();
    Ticks::parse(&stat).map_or(Duration::ZERO, |ticks| ticks.children)
}

/// User and system time of a sandbox's processes and of the children that these have waited for, in steps of a clock
/// tick. Only processes of the process sessions (`setsid`) that are `wanted` count.
pub(crate) fn cpu(proc_dir: impl AsFd, wanted: impl Fn(i32) -> bool) -> Duration {
    let ticks = |name: &String| {
        let stat = read(&proc_dir, name, "stat").ok()?;
        let ticks = Ticks::parse(&stat)?;
        wanted(ticks.session).then_some(ticks.own + ticks.children)
    };
    processes(&proc_dir).iter().filter_map(ticks).sum()
}

/// Number of a sandbox's processes.
pub(crate) fn count(proc_dir: impl AsFd) -> usize {
    processes(&proc_dir).len()
}

/// Sum of the memory that each process sees. What several processes share counts for each of them. Processes that
/// vanish meanwhile don't count.
pub(crate) fn memory(proc_dir: impl AsFd) -> Memory {
    let mut sum = Memory::default();
    for name in processes(&proc_dir) {
        if let Ok(status) = read_shared(&proc_dir, &name, "status", |text| text.contains("\nRssAnon:")) {
            sum.private += kib(&status, "RssAnon:").unwrap_or(0);
            sum.shared += kib(&status, "RssShmem:").unwrap_or(0);
        }
    }
    sum
}

/// As [`memory`], but a page that several processes share counts once. This is slow: the kernel walks through all their
/// page tables. If `shared` is set, [`Memory::shared`] is the sum of the shared mappings without a file, which nothing
/// else counts; otherwise it is 0. `None` if the kernel doesn't report the memory of a process that is there.
pub(crate) fn shared_once(proc_dir: impl AsFd, shared: bool) -> Option<Memory> {
    let mut sum = Memory::default();
    for name in processes(&proc_dir) {
        match read_shared(&proc_dir, &name, "smaps_rollup", |text| !text.is_empty()) {
            // A process that has no memory reports nothing.
            Ok(text) if text.is_empty() => continue,
            Ok(text) => sum.private += kib(&text, "Pss_Anon:")?,
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => continue,
            // A file operation, which is closed to others and small, or a program that nobody may read.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                let status = read(&proc_dir, &name, "status").unwrap_or_default();
                sum.private += kib(&status, "RssAnon:").unwrap_or(0);
            }
            Err(_) => return None,
        }
        if shared {
            let smaps = read_shared(&proc_dir, &name, "smaps", |text| !text.is_empty());
            sum.shared += nameless(&smaps.unwrap_or_default());
        }
    }
    Some(sum)
}

/// Bytes of the anonymous files (`memfd_create`) that a sandbox's processes hold open.
pub(crate) fn anonymous_files(proc_dir: impl AsFd) -> u64 {
    let (mut sum, mut seen) = (0, HashSet::new());
    for name in processes(&proc_dir) {
        let Some((fds, numbers)) = descriptors(&proc_dir, &name) else { continue };
        for fd in numbers {
            let memory = readlinkat(&fds, &*fd, Vec::new()).is_ok_and(|to| to.to_bytes().starts_with(b"/memfd:"));
            if let Some(stat) = memory.then(|| statat(&fds, &*fd, AtFlags::empty()).ok()).flatten()
                && seen.insert((stat.st_dev, stat.st_ino))
            {
                sum += u64::try_from(stat.st_blocks).unwrap_or(0) * BLOCK;
            }
        }
    }
    sum
}

/// Bytes that are in use on a file system.
pub(crate) fn stored(root: impl AsFd) -> u64 {
    rustix::fs::fstatfs(root).map_or(0, |fs| {
        let blocks = fs.f_blocks.saturating_sub(fs.f_bfree);
        blocks * u64::try_from(fs.f_bsize).unwrap_or(PAGE)
    })
}

/// Pids of a sandbox's processes, as names in its `/proc`. The init, which is 1, is left out.
fn processes(proc_dir: impl AsFd) -> Vec<String> {
    let list = directory(proc_dir, ".").map(|d| names(&d)).unwrap_or_default();
    list.into_iter().filter(|name| name != "1").collect()
}

fn directory(at: impl AsFd, path: &str) -> io::Result<OwnedFd> {
    Ok(openat(at, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// The names in a directory that are numbers.
fn names(of: &OwnedFd) -> Vec<String> {
    let entries = Dir::read_from(of).into_iter().flatten().flatten();
    let names = entries.filter_map(|e| Some(e.file_name().to_str().ok()?.to_owned()));
    names.filter(|name| name.bytes().all(|b| b.is_ascii_digit())).collect()
}

fn read(proc_dir: impl AsFd, process: &str, file: &str) -> io::Result<String> {
    let fd = openat(proc_dir, format!("{process}/{file}"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    procfs::text_of(fd.into())
}

/// Reads a file of a process about what its threads share, such as memory. The first thread may end before the others,
/// and its file then has none of this. In that case another thread's file is read. `complete` is whether a text has it.
fn read_shared(proc_dir: impl AsFd, process: &str, file: &str, complete: impl Fn(&str) -> bool) -> io::Result<String> {
    let text = read(&proc_dir, process, file);
    if text.as_deref().is_ok_and(&complete) {
        return text;
    }
    let others = || {
        let threads = directory(&proc_dir, &format!("{process}/task")).ok()?;
        names(&threads).iter().find_map(|thread| read(&threads, thread, file).ok().filter(|text| complete(text)))
    };
    others().map_or(text, Ok)
}

/// A process's `fd` directory and the numbers in it. Threads share the descriptors, so that of the first thread that
/// shows any is taken.
fn descriptors(proc_dir: impl AsFd, process: &str) -> Option<(OwnedFd, Vec<String>)> {
    let of = |at: &OwnedFd, path: &str| {
        let fds = directory(at, path).ok()?;
        let numbers = names(&fds);
        (!numbers.is_empty()).then_some((fds, numbers))
    };
    let process = directory(proc_dir, process).ok()?;
    of(&process, "fd").or_else(|| {
        let threads = directory(&process, "task").ok()?;
        names(&threads).iter().find_map(|thread| of(&threads, &format!("{thread}/fd")))
    })
}

/// The value of the line that begins with `key`, in bytes (the kernel writes KiB).
fn kib(text: &str, key: &str) -> Option<u64> {
    let value = text.lines().find_map(|l| l.strip_prefix(key)?.trim().split(' ').next()?.parse::<u64>().ok())?;
    Some(value * 1024)
}

/// Bytes of the shared mappings in `smaps` that have no file which could be counted: shared anonymous memory and System
/// V segments. Each page is divided by the number of processes that map it.
fn nameless(smaps: &str) -> u64 {
    let (mut sum, mut counts) = (0, false);
    for line in smaps.lines() {
        if line.as_bytes().first().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) {
            counts = line.ends_with(" /dev/zero (deleted)") || line.contains(" /SYSV");
        } else if counts && line.starts_with("Pss:") {
            sum += kib(line, "Pss:").unwrap_or(0);
        }
    }
    sum
}

/// Resident memory of one process, in bytes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resident {
    /// The most that it had in all.
    pub(crate) peak: u64,
    /// Private memory.
    pub(crate) private: u64,
    /// Pages of files: libraries, files in the sandbox's storage, memory files.
    pub(crate) files: u64,
}

impl Resident {
    /// That of the process with this `status`; 0 when it is gone.
    pub(crate) fn read(status: &File) -> Self {
        let text = procfs::text_again(status).unwrap_or_default();
        let of = |key| kib(&text, key).unwrap_or(0);
        Self { peak: of("VmHWM:"), private: of("RssAnon:"), files: of("RssFile:") + of("RssShmem:") }
    }
}

/// Whether a signal waits for a stopped process that would do something about it if the process went on. `status` is that
/// of its first thread.
pub(crate) fn has_signal(pid: i32, status: &File) -> bool {
    let text = procfs::text_again(status).unwrap_or_default();
    if text.contains("\nThreads:\t1\n") {
        return Signals::parse(&text).matter();
    }
    // Signals for the whole process wait until one of its threads takes them.
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads
        .filter_map(|thread| procfs::text(thread.path().join("status")).ok())
        .any(|text| Signals::parse(&text).matter())
}

/// Signals of a thread, as sets of bits.
#[derive(Debug, Default)]
struct Signals {
    /// Those that wait for it, or for its process.
    pending: u64,
    blocked: u64,
    ignored: u64,
    caught: u64,
}

impl Signals {
    /// Signals that stop a process which does not catch them. One that is stopped already has nothing to do about them.
    const STOPS: u64 =
        Self::bit(libc::SIGSTOP) | Self::bit(libc::SIGTSTP) | Self::bit(libc::SIGTTIN) | Self::bit(libc::SIGTTOU);

    const fn bit(signal: i32) -> u64 {
        1 << (signal - 1)
    }

    fn parse(status: &str) -> Self {
        let mut signals = Self::default();
        for line in status.lines() {
            let Some((key, set)) = line.split_once(":\t") else { continue };
            let set = || u64::from_str_radix(set, 16).unwrap_or(0);
            match key {
                "SigPnd" | "ShdPnd" => signals.pending |= set(),
                "SigBlk" => signals.blocked = set(),
                "SigIgn" => signals.ignored = set(),
                "SigCgt" => signals.caught = set(),
                _ => {}
            }
        }
        signals
    }

    /// Whether one of those that wait would be handled, or end the process.
    fn matter(&self) -> bool {
        self.pending & !self.blocked & !self.ignored & !(Self::STOPS & !self.caught) != 0
    }
}

/// User and system time as a process's `stat` shows it, in steps of a clock tick.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticks {
    /// Its process session.
    session: i32,
    /// Of the process itself.
    pub(crate) own: Duration,
    /// Of the children that it has waited for, and of those that these have waited for.
    pub(crate) children: Duration,
}

impl Ticks {
    /// Those of a live process.
    pub(crate) fn of(pid: i32) -> Self {
        let stat = procfs::text(format!("/proc/{pid}/stat")).unwrap_or_default();
        Self::parse(&stat).unwrap_or_default()
    }

    /// Reads the fields 6 and 14 to 17. They are counted after the name, which may hold anything.
    fn parse(stat: &str) -> Option<Self> {
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_whitespace().skip(3);
        let session = fields.next()?.parse().ok()?;
        let mut times = fields.skip(7).map(|field| field.parse::<u64>().unwrap_or(0));
        let mut two = || Some(Duration::from_millis((times.next()? + times.next()?) * 1000 / TICKS));
        Some(Self { session, own: two()?, children: two()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_past_an_odd_name() {
        let stat = "7 (a) b (c) R 1 7 8 0 -1 4194304 100 0 0 0 11 22 3 4 20 0 1 0 5 6 7";
        let (own, children) = (Duration::from_millis(330), Duration::from_millis(70));
        assert_eq!(Ticks::parse(stat), Some(Ticks { session: 8, own, children }));
    }

    #[test]
    fn a_signal_matters_if_something_is_done_about_it() {
        let matters = |own: u64, shared: u64, blocked: u64, ignored: u64, caught: u64| {
            let text = format!(
                "Name:\tx\nThreads:\t1\nSigQ:\t1/99\nSigPnd:\t{own:016x}\nShdPnd:\t{shared:016x}\n\
                 SigBlk:\t{blocked:016x}\nSigIgn:\t{ignored:016x}\nSigCgt:\t{caught:016x}\nCapInh:\t0\n"
            );
            Signals::parse(&text).matter()
        };
        let [usr1, tstp, last] = [libc::SIGUSR1, libc::SIGTSTP, 64].map(Signals::bit);
        assert!(!matters(0, 0, 0, 0, u64::MAX));
        // Whether it is caught or ends the process; for one thread or for the process.
        assert!(matters(usr1, 0, 0, 0, usr1) && matters(0, usr1, 0, 0, 0) && matters(0, last, 0, 0, 0));
        assert!(!matters(0, usr1, usr1, 0, usr1) && !matters(0, usr1, 0, usr1, 0));
        assert!(matters(0, usr1 | last, usr1, 0, usr1));
        assert!(!matters(0, tstp | Signals::bit(libc::SIGSTOP), 0, 0, 0) && matters(0, tstp, 0, 0, tstp));
        assert!(!Signals::parse("").matter());
    }

    #[test]
    fn values_are_read_in_bytes() {
        let text = "55d0-7ffe ---p 00000000 00:00 0    [rollup]\nRss:  900 kB\nPss:  700 kB\nPss_Anon:  600 kB\n";
        assert_eq!((kib(text, "Pss_Anon:"), kib(text, "Pss_Shmem:")), (Some(600 * 1024), None));
    }

    #[test]
    fn only_shared_mappings_without_a_file_count() {
        let smaps = "7f00-7f10 rw-s 00000000 00:01 77  /dev/zero (deleted)\nRss: 8 kB\nPss: 8 kB\nVmFlags: rd\n\
            7f10-7f20 rw-s 00000000 00:01 78  /memfd:x (deleted)\nPss: 16 kB\n\
            7f20-7f30 rw-p 00000000 00:00 0 \nPss: 32 kB\n\
            7f30-7f40 rw-s 00000000 00:01 0  /SYSV00000000 (deleted)\nPss: 64 kB\n";
        assert_eq!(nameless(smaps), 72 * 1024);
    }

    #[test]
    fn this_process_shows_in_its_own_proc() {
        let dir = std::fs::File::open("/proc").unwrap();
        assert!(memory(&dir).private > PAGE);
        let file = rustix::fs::memfd_create("watched", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        std::io::Write::write_all(&mut std::fs::File::from(file.try_clone().unwrap()), &[1; 100_000]).unwrap();
        assert!(anonymous_files(&dir) >= 100_000);
    }
}
