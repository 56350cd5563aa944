//! Reads the CPU time of the container's control group (version 1 or 2). It includes processes that have ended and that
//! nobody has waited for.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// An open counter. It can be read even after its path is out of sight.
pub(crate) struct CpuCounter(File);

impl CpuCounter {
    /// The counter of the group at that directory.
    pub(crate) fn open(group: &Path) -> io::Result<Self> {
        File::open(group.join("cpuacct.usage")).or_else(|_| File::open(group.join("cpu.stat"))).map(Self)
    }

    /// The counter of a Docker container: of the group that its own `/sys/fs/cgroup` shows.
    pub(crate) fn of_container() -> Option<Self> {
        let places = ["/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup"];
        places.iter().find_map(|place| Self::open(Path::new(place)).ok())
    }

    /// CPU time used so far; `None` if the kernel doesn't report it.
    pub(crate) fn read(&self) -> Option<Duration> {
        let mut buf = [0; 256];
        let got = self.0.read_at(&mut buf, 0).ok()?;
        parse(&String::from_utf8_lossy(&buf[..got]))
    }
}

/// Version 1 writes nothing but nanoseconds, version 2 writes microseconds after a name.
fn parse(text: &str) -> Option<Duration> {
    if let Ok(nanos) = text.trim().parse() {
        return Some(Duration::from_nanos(nanos));
    }
    text.lines().find_map(|l| l.strip_prefix("usage_usec ")?.trim().parse().ok()).map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_read() {
        assert_eq!(parse("3000000\n"), Some(Duration::from_millis(3)));
        assert_eq!(parse("usage_usec 4000\nuser_usec 1\nsystem_usec 3999\n"), Some(Duration::from_millis(4)));
        assert_eq!(parse("nr_periods 0\n"), None);
    }
}
