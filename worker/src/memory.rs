//! How much memory there is for idle containers that are kept ready for one tenant each.

use std::fs;
use std::path::Path;

use crate::options::BackendKind;

/// These containers get a quarter of the memory. The rest is for jobs, and for everything else on the machine.
const SHARE: u64 = 4;

/// Most memory for these containers, in bytes. More would only wait for tenants that come rarely.
const MOST: u64 = 8 << 30;

/// Memory for these containers on this machine, for all pools together, in bytes. Native containers are in this
/// process's control group; Docker's are in groups of the engine.
pub(crate) fn for_bound(backend: BackendKind) -> u64 {
    let info = rustix::system::sysinfo();
    let machine = u64::from(info.mem_unit).saturating_mul(info.totalram);
    let group = match backend {
        BackendKind::Native => of_group(Path::new("/sys/fs/cgroup"), &own_groups()),
        BackendKind::Docker => None,
    };
    share(group.map_or(machine, |group| group.min(machine)))
}

fn share(there_is: u64) -> u64 {
    (there_is / SHARE).min(MOST)
}

fn own_groups() -> String {
    fs::read_to_string("/proc/self/cgroup").unwrap_or_default()
}

/// The lowest memory limit of a process's control groups and of the groups above them, of cgroup version 1 or 2.
fn of_group(root: &Path, own: &str) -> Option<u64> {
    let mut lowest: Option<u64> = None;
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, file) = match controllers {
            "" => (root.to_path_buf(), "memory.max"),
            names if names.split(',').any(|name| name == "memory") => (root.join("memory"), "memory.limit_in_bytes"),
            _ => continue,
        };
        // Inside a container, the path may be one that only the host sees. The process's own group is then the root.
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            let limit = fs::read_to_string(root.join(group).join(file)).ok().and_then(|text| text.trim().parse().ok());
            lowest = limit.into_iter().chain(lowest).min();
        }
    }
    lowest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_quarter_and_bounded() {
        assert_eq!(share(4 << 30), 1 << 30);
        assert_eq!(share(1 << 40), MOST);
        assert!(for_bound(BackendKind::Docker) >= for_bound(BackendKind::Native));
    }

    #[test]
    fn the_lowest_limit_of_the_groups_counts() {
        let dir = tempfile::tempdir().unwrap();
        let write = |at: &str, text: &str| {
            let file = dir.path().join(at);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write("a/b/memory.max", "max\n");
        write("a/memory.max", "1000\n");
        assert_eq!(of_group(dir.path(), "0::/a/b\n"), Some(1000));
        assert_eq!(of_group(dir.path(), "0::/elsewhere\n"), None);
        write("memory/x/memory.limit_in_bytes", "500\n");
        assert_eq!(of_group(dir.path(), "3:cpuset:/\n4:memory:/x\n0::/a/b\n"), Some(500));
    }
}
