//! What a sandbox uses now, from its own `/proc`: every process in it, and no other.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::fs::{Dir, Mode, OFlags, openat};

/// Sums over a sandbox's processes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    /// User and system time, reaped children included; in steps of a clock tick.
    pub(crate) cpu: Duration,
    /// Resident private memory, in bytes.
    pub(crate) memory_bytes: u64,
}

/// Clock ticks per second: the kernel's user-visible constant on all architectures we run on.
const TICKS: u64 = 100;

/// Bytes of a page.
pub(crate) const PAGE: u64 = 4096;

/// Takes a sample; processes that vanish meanwhile don't count.
pub(crate) fn sample(proc_dir: impl AsFd) -> Sample {
    let mut sum = Sample::default();
    for name in processes(&proc_dir) {
        if let Ok(Some(ticks)) = read(&proc_dir, &name, "stat").as_deref().map(ticks) {
            sum.cpu += Duration::from_millis(ticks * 1000 / TICKS);
        }
        if let Ok(Some(pages)) = read(&proc_dir, &name, "statm").as_deref().map(private_pages) {
            sum.memory_bytes += pages * PAGE;
        }
    }
    sum
}

/// Memory that a sandbox's processes have for themselves, in bytes, where a page that several of them share counts once. It takes a
/// walk through all their page tables. `None` where the kernel does not tell it of one that is there.
pub(crate) fn shared_once(proc_dir: impl AsFd) -> Option<u64> {
    let mut sum = 0;
    for name in processes(&proc_dir) {
        match read(&proc_dir, &name, "smaps_rollup") {
            Ok(text) => sum += proportional(&text)?,
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => {}
            Err(_) => return None,
        }
    }
    Some(sum)
}

/// Names of a sandbox's processes but its init, which is 1.
fn processes(proc_dir: impl AsFd) -> Vec<String> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let entries = openat(proc_dir, ".", flags, Mode::empty()).and_then(Dir::new);
    let names = entries.into_iter().flatten().flatten().filter_map(|e| Some(e.file_name().to_str().ok()?.to_owned()));
    names.filter(|name| name != "1" && name.bytes().all(|b| b.is_ascii_digit())).collect()
}

fn read(proc_dir: impl AsFd, process: &str, file: &str) -> io::Result<String> {
    let fd = openat(proc_dir, format!("{process}/{file}"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = String::new();
    std::fs::File::from(fd).read_to_string(&mut text)?;
    Ok(text)
}

/// Of `smaps_rollup`: memory that is in no file, each page divided by who shares it, in bytes. A process without memory tells nothing.
fn proportional(rollup: &str) -> Option<u64> {
    if rollup.is_empty() {
        return Some(0);
    }
    let kib =
        rollup.lines().find_map(|l| l.strip_prefix("Pss_Anon:")?.trim().split(' ').next()?.parse::<u64>().ok())?;
    Some(kib * 1024)
}

/// Peak resident memory of one live process, in bytes; 0 when it is gone.
pub(crate) fn peak_memory(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")?.trim().split(' ').next()?.parse::<u64>().ok());
    peak.unwrap_or(0) * 1024
}

/// CPU time of the children that a live process has waited for, during a run that took `wall`; in clock ticks.
pub(crate) fn children_cpu(pid: i32, wall: Duration) -> Duration {
    if wall < Duration::from_millis(1000 / TICKS) {
        return Duration::ZERO;
    }
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let ticks = stat
        .rsplit_once(')')
        .map_or(0, |(_, rest)| rest.split_whitespace().skip(13).take(2).filter_map(|f| f.parse::<u64>().ok()).sum());
    Duration::from_millis(ticks * 1000 / TICKS)
}

/// Fields 14–17 of `stat`, counted after the name, which may hold anything.
fn ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    Some(rest.split_whitespace().skip(11).take(4).filter_map(|f| f.parse::<u64>().ok()).sum())
}

/// Resident less shared pages.
fn private_pages(statm: &str) -> Option<u64> {
    let mut fields = statm.split_whitespace().skip(1).map(|f| f.parse::<u64>().unwrap_or(0));
    Some(fields.next()?.saturating_sub(fields.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_past_an_odd_name() {
        let stat = "7 (a) b (c) R 1 7 7 0 -1 4194304 100 0 0 0 11 22 3 4 20 0 1 0 5 6 7";
        assert_eq!(ticks(stat), Some(40));
        assert_eq!(private_pages("1000 300 100 1 0 200 0\n"), Some(200));
    }

    #[test]
    fn a_rollup_is_read() {
        let text = "55d0-7ffe ---p 00000000 00:00 0    [rollup]\nRss:  900 kB\nPss:  700 kB\nPss_Anon:  600 kB\nPss_File: 100 kB\n";
        assert_eq!(proportional(text), Some(600 * 1024));
        assert_eq!((proportional(""), proportional("Rss: 1 kB\n")), (Some(0), None));
    }

    #[test]
    fn this_process_shows_in_its_own_proc() {
        let dir = std::fs::File::open("/proc").unwrap();
        assert!(sample(&dir).memory_bytes > PAGE);
    }
}
