//! Checks whether this process may create control groups below its own, by creating one.

use std::path::{Path, PathBuf};

use super::Check;

const NAME: &str = "control groups";
const MEANS: &str = "Instead, resource limits and a monitor bound memory and processes. The monitor reacts later.";

pub(super) fn check() -> Check {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let root = Path::new("/sys/fs/cgroup");
    if root.join("cgroup.controllers").is_file() {
        return unified(root, &own);
    }
    let mut found = Vec::new();
    for controller in ["memory", "pids"] {
        if hierarchy(root, &own, controller).is_some_and(|dir| try_group(&dir).is_ok()) {
            found.push(controller);
        }
    }
    match found.len() {
        2 => Check::ok(NAME, "version 1; groups can be created for memory and pids"),
        _ => Check::warn(
            NAME,
            format!(
                "version 1; of memory and pids, groups can be created for: {}",
                if found.is_empty() { "none".to_owned() } else { found.join(", ") }
            ),
            MEANS,
            "run as root, or let the system manager delegate a control group to you",
        ),
    }
}

fn unified(root: &Path, own: &str) -> Check {
    let path = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let dir = root.join(path.trim_start_matches('/'));
    let controllers = std::fs::read_to_string(dir.join("cgroup.controllers")).unwrap_or_default();
    let has = |name: &str| controllers.split_whitespace().any(|controller| controller == name);
    let fix = "run as root, or run: systemd-run --user --scope -p Delegate=yes thermae …";
    match try_group(&dir) {
        Ok(()) if has("memory") && has("pids") => Check::ok(NAME, "version 2; groups can be created"),
        Ok(()) => Check::warn(
            NAME,
            format!("version 2; the group of this process has only these controllers: {}", controllers.trim()),
            MEANS,
            fix,
        ),
        Err(error) => {
            Check::warn(NAME, format!("version 2; can't create a group in {}: {error}", dir.display()), MEANS, fix)
        }
    }
}

/// This process's group in a hierarchy of version 1; `None` if the controller isn't mounted.
fn hierarchy(root: &Path, own: &str, controller: &str) -> Option<PathBuf> {
    let path = own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let controllers = parts.next()?;
        controllers.split(',').any(|c| c == controller).then(|| parts.next()).flatten()
    })?;
    // In a container, this path is the host's, and the process's own group is the root of the mounted hierarchy.
    let full = root.join(controller).join(path.trim_start_matches('/'));
    Some(if full.is_dir() { full } else { root.join(controller) })
}

fn try_group(dir: &Path) -> std::io::Result<()> {
    let group = dir.join(format!("thermae-doctor-{}", std::process::id()));
    std::fs::create_dir(&group)?;
    std::fs::remove_dir(&group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_group_is_found_among_joined_controllers() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("memory/user/1")).unwrap();
        let own = "12:cpu,cpuacct:/\n5:memory,hugetlb:/user/1\n4:pids:/elsewhere\n0::/x\n";
        assert_eq!(hierarchy(root.path(), own, "memory"), Some(root.path().join("memory/user/1")));
        assert_eq!(hierarchy(root.path(), own, "pids"), Some(root.path().join("pids")));
        assert_eq!(hierarchy(root.path(), own, "blkio"), None);
    }
}
