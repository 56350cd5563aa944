//! Reads the memory counters of the container's control group (version 1 or 2): its OOM kills and its shared memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Open counters. They can be read even after their paths are out of sight.
pub(crate) struct MemoryGroup {
    events: File,
    /// `memory.stat`; `None` if the kernel has no such file.
    stat: Option<File>,
}

impl MemoryGroup {
    /// The counters of the group at that directory.
    pub(crate) fn open(group: &Path) -> io::Result<Self> {
        let events =
            File::open(group.join("memory.events")).or_else(|_| File::open(group.join("memory.oom_control")))?;
        Ok(Self { events, stat: File::open(group.join("memory.stat")).ok() })
    }

    /// The counters of a Docker container: of the group that its own `/sys/fs/cgroup` shows.
    pub(crate) fn of_container() -> Option<Self> {
        ["/sys/fs/cgroup", "/sys/fs/cgroup/memory"].iter().find_map(|d| Self::open(Path::new(d)).ok())
    }

    /// OOM kills so far; 0 if the kernel doesn't report them.
    pub(crate) fn oom_kills(&self) -> u64 {
        number(&read::<512>(&self.events), "oom_kill ").unwrap_or(0)
    }

    /// Bytes of memory files now, whether a process maps them or not: tmpfs, `memfd_create`, shared mappings, System V.
    /// `None` if the kernel doesn't report them.
    pub(crate) fn shared(&self) -> Option<u64> {
        number(&read::<8192>(self.stat.as_ref()?), "shmem ")
    }
}

fn read<const N: usize>(file: &File) -> String {
    let mut buf = [0; N];
    let got = file.read_at(&mut buf, 0).unwrap_or(0);
    String::from_utf8_lossy(&buf[..got]).into_owned()
}

fn number(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|l| l.strip_prefix(key)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_read() {
        assert_eq!(number("low 0\nhigh 0\nmax 7\noom 2\noom_kill 3\noom_group_kill 0\n", "oom_kill "), Some(3));
        assert_eq!(number("oom_kill_disable 0\nunder_oom 0\noom_kill 4\n", "oom_kill "), Some(4));
        assert_eq!(number("", "oom_kill "), None);
        assert_eq!(number("cache 1\nrss 2\nshmem 4096\ntotal_shmem 9\n", "shmem "), Some(4096));
        assert_eq!(number("anon 1\nshmem_thp 5\nshmem 8192\n", "shmem "), Some(8192));
    }
}
