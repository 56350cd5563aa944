//! Makes the container's control group, below this process's own group. Other groups are never touched, except empty
//! ones that killed supervisors have left.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::Spec;
use crate::cpu::CpuCounter;
use crate::group::MemoryGroup;

/// The container's control group: one directory per hierarchy (version 1) or a single one (version 2). Dropping it
/// removes the directories.
pub(super) struct Group {
    dirs: Vec<PathBuf>,
    memory: Option<PathBuf>,
    cpu: Option<PathBuf>,
    /// Why the CPU quota that was asked for does not hold; `None` if it holds, or if there is none.
    pub(super) no_quota: Option<String>,
}

/// The kernel's default period for CPU quotas, in microseconds.
const PERIOD_US: u64 = 100_000;

/// Converts a quota in hundredths of a processor to microseconds in a period.
fn quota_us(percent: u32) -> u64 {
    u64::from(percent) * PERIOD_US / 100
}

/// Prefix of the groups' names. The supervisor's pid follows it, so that the groups of dead supervisors are recognized.
const PREFIX: &str = "thermae-";

impl Group {
    /// Makes the group and sets its limits.
    ///
    /// # Errors
    /// If no memory hierarchy can be used; the text says why.
    pub(super) fn make(spec: &Spec) -> Result<Self, String> {
        let own = fs::read_to_string("/proc/self/cgroup").map_err(|e| format!("/proc/self/cgroup: {e}"))?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|e| format!("/proc/self/mountinfo: {e}"))?;
        let mut group = Self { dirs: Vec::new(), memory: None, cpu: None, no_quota: None };
        let mut problem = String::from("no memory hierarchy is mounted");
        for (controller, limits) in [
            // This controller only counts. Version 2 has none of this name: every group counts its CPU time.
            ("cpuacct", vec![]),
            (
                "memory",
                vec![
                    ("memory.limit_in_bytes", "memory.max", spec.memory_bytes.map(|n| n.to_string())),
                    ("memory.memsw.limit_in_bytes", "memory.swap.max", None),
                ],
            ),
            ("pids", vec![("pids.max", "pids.max", spec.pids.map(|n| n.to_string()))]),
        ] {
            let Some((at, v2)) = locate(&own, &mounts, controller) else { continue };
            match group.add(&at, v2, &limits) {
                Ok(dir) if controller == "memory" => group.memory = Some(dir),
                Ok(dir) if controller == "cpuacct" => group.cpu = Some(dir),
                Ok(_) => {}
                Err(e) => problem = format!("{}: {e}", at.display()),
            }
        }
        group.no_quota = group.share(spec, &own, &mounts).err().filter(|_| spec.cpu_quota.is_some());
        if group.memory.is_some() { Ok(group) } else { Err(problem) }
    }

    /// Sets the container's CPU weight and its CPU quota.
    fn share(&mut self, spec: &Spec, own: &str, mounts: &str) -> Result<(), String> {
        let (at, v2) = locate(own, mounts, "cpu").ok_or("no CPU hierarchy is mounted, or lent to this process")?;
        let limits = if v2 {
            // Weights of version 2 are 1 to 10,000 with a default of 100, where version 1 has 1024.
            let weight = spec.cpu_shares.map(|shares| (shares / 10).clamp(1, 10_000).to_string());
            let max = spec.cpu_quota.map(|percent| format!("{} {PERIOD_US}", quota_us(percent)));
            [("", "cpu.weight", weight), ("", "cpu.max", max)]
        } else {
            let quota = spec.cpu_quota.map(|percent| quota_us(percent).to_string());
            [("cpu.shares", "", spec.cpu_shares.map(|n| n.to_string())), ("cpu.cfs_quota_us", "", quota)]
        };
        self.add(&at, v2, &limits).map(drop).map_err(|e| format!("{}: {e}", at.display()))
    }

    fn add(&mut self, own: &Path, v2: bool, limits: &[(&str, &str, Option<String>)]) -> io::Result<PathBuf> {
        sweep(own);
        let dir = own.join(format!("{PREFIX}{}", std::process::id()));
        if !self.dirs.contains(&dir) {
            fs::create_dir(&dir)?;
            self.dirs.push(dir.clone());
        }
        for (v1_name, v2_name, value) in limits {
            if let Some(value) = value {
                fs::write(dir.join(if v2 { v2_name } else { v1_name }), value)?;
            }
        }
        Ok(dir)
    }

    /// Moves a process into the group.
    pub(super) fn admit(&self, pid: i32) -> io::Result<()> {
        self.dirs.iter().try_for_each(|d| fs::write(d.join("cgroup.procs"), pid.to_string()))
    }

    /// Opens the group's memory counters.
    pub(super) fn memory_counter(&self) -> Option<MemoryGroup> {
        MemoryGroup::open(self.memory.as_deref()?).ok()
    }

    /// Opens the group's counter of CPU time.
    pub(super) fn cpu_counter(&self) -> Option<CpuCounter> {
        CpuCounter::open(self.cpu.as_deref().or(self.memory.as_deref())?).ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel releases a group some milliseconds after its last process died, or later on a busy machine. The
        // wait is shorter than the time that a worker gives a container to end.
        let until = Instant::now() + Duration::from_millis(1500);
        for dir in &self.dirs {
            while fs::remove_dir(dir).is_err_and(|e| e.raw_os_error() == Some(libc::EBUSY)) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// Removes the empty groups that killed supervisors have left below `own`, this process's own group.
fn sweep(own: &Path) {
    for entry in fs::read_dir(own).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let dead = name
            .to_str()
            .and_then(|n| n.strip_prefix(PREFIX)?.parse::<u32>().ok())
            .is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        if dead {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The directory of this process's own group of a controller, and whether it is version 2. `None` if the controller is
/// not available here.
fn locate(own: &str, mountinfo: &str, controller: &str) -> Option<(PathBuf, bool)> {
    let group = |wanted: &dyn Fn(&str) -> bool| {
        own.lines().find_map(|l| {
            let mut parts = l.splitn(3, ':').skip(1);
            parts.next().filter(|c| wanted(c))?;
            parts.next()
        })
    };
    let mount = |wanted: &dyn Fn(&str, &str) -> bool| {
        mountinfo.lines().find_map(|l| {
            let (left, right) = l.split_once(" - ")?;
            let mut fs = right.split(' ');
            let (kind, options) = (fs.next()?, fs.nth(1)?);
            let mut fields = left.split(' ').skip(3);
            let (root, at) = (fields.next()?, fields.next()?);
            wanted(kind, options).then(|| (root.to_string(), PathBuf::from(at)))
        })
    };
    let place = |path: &str, (root, at): (String, PathBuf)| {
        let path = path.strip_prefix(root.trim_end_matches('/')).unwrap_or(path);
        at.join(path.trim_start_matches('/'))
    };
    let has = |list: &str| list.split(',').any(|c| c == controller);
    if let (Some(path), Some(at)) = (group(&has), mount(&|kind, options| kind == "cgroup" && has(options))) {
        return Some((place(path, at), false));
    }
    let dir = place(group(&str::is_empty)?, mount(&|kind, _| kind == "cgroup2")?);
    // In version 2, a group's children have a controller only if the group's `cgroup.subtree_control` lists it, and a
    // group with processes can't list any.
    let lent = fs::read_to_string(dir.join("cgroup.subtree_control")).unwrap_or_default();
    lent.split_whitespace().any(|c| c == controller).then_some((dir, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_one_is_located_below_the_own_group() {
        let own = "4:memory:/process_api/x\n3:cpuset:/\n0::/\n";
        let mounts = "35 31 0:31 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";
        let (dir, v2) = locate(own, mounts, "memory").unwrap();
        assert_eq!((dir.as_path(), v2), (Path::new("/sys/fs/cgroup/memory/process_api/x"), false));
        assert_eq!(locate(own, mounts, "pids"), None);
    }
}
