//! The kernel's count of OOM kills in the container's control group, version 1 or 2.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// An open counter; reading it works after its path is out of sight.
pub(crate) struct OomCounter(File);

impl OomCounter {
    /// The counter of the group at that directory.
    pub(crate) fn open(group: &Path) -> io::Result<Self> {
        File::open(group.join("memory.events")).or_else(|_| File::open(group.join("memory.oom_control"))).map(Self)
    }

    /// Inside a Docker container: the group that its own `/sys/fs/cgroup` shows.
    pub(crate) fn of_container() -> Option<Self> {
        ["/sys/fs/cgroup", "/sys/fs/cgroup/memory"].iter().find_map(|d| Self::open(Path::new(d)).ok())
    }

    /// Kills so far; 0 where the kernel does not tell.
    pub(crate) fn read(&self) -> u64 {
        let mut buf = [0; 512];
        let got = self.0.read_at(&mut buf, 0).unwrap_or(0);
        parse(&String::from_utf8_lossy(&buf[..got]))
    }
}

fn parse(text: &str) -> u64 {
    text.lines().find_map(|l| l.strip_prefix("oom_kill ")?.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_read() {
        assert_eq!(parse("low 0\nhigh 0\nmax 7\noom 2\noom_kill 3\noom_group_kill 0\n"), 3);
        assert_eq!(parse("oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"), 4);
        assert_eq!(parse(""), 0);
    }
}
