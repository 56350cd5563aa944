//! Checks that a run leaves nothing behind that it started: no process, no mount, no cgroup, no server.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Result;

use crate::{
    paths, process,
    services::{docker, set::Set},
};

/// What was there before the run.
#[derive(Debug)]
pub(crate) struct Watchdog {
    mounts: BTreeSet<PathBuf>,
    cgroups: BTreeSet<PathBuf>,
    bridges: BTreeSet<String>,
    sets: BTreeSet<String>,
}

impl Watchdog {
    /// Looks at the machine before the run.
    pub(crate) fn before() -> Self {
        Self { mounts: mounts(), cgroups: cgroups(), bridges: bridges(), sets: running_sets() }
    }

    /// Ends what the run has left, and lists it. What others run at the same time is ignored.
    pub(crate) fn after(&self) -> Result<Vec<String>> {
        let mut left = Vec::new();
        let me = i32::try_from(std::process::id())?;
        // A process that was told to end may need a moment.
        process::wait_until(Duration::from_secs(5), || process::descendants(me).is_empty());
        let orphans = process::descendants(me);
        for name in running_sets().difference(&self.sets) {
            let mut set = Set::open(name)?;
            if set.services().any(|(_, running)| orphans.contains(&running.main)) {
                left.push(format!("the servers of the set {name}"));
                set.stop()?;
            }
        }
        for orphan in orphans.into_iter().filter(|orphan| orphan.alive()) {
            left.push(format!("process {}: {}", orphan.pid, process::command_line(orphan.pid)));
            orphan.kill();
        }
        let others: Vec<PathBuf> = running_sets().iter().map(|name| paths::services(name)).collect();
        let foreign = |path: &PathBuf| self.mounts.contains(path) || others.iter().any(|set| path.starts_with(set));
        left.extend(mounts().iter().filter(|path| !foreign(path)).map(|path| format!("mount {}", path.display())));
        let foreign = |path: &PathBuf| self.cgroups.contains(path) || in_use(path);
        left.extend(cgroups().iter().filter(|path| !foreign(path)).map(|path| format!("cgroup {}", path.display())));
        left.extend(bridges().difference(&self.bridges).map(|name| format!("network interface {name}")));
        Ok(left)
    }
}

/// Whether a cgroup, or one below it, holds a process. The leftovers of this run hold none: `after` has ended them all.
fn in_use(group: &Path) -> bool {
    let own = fs::read_to_string(group.join("cgroup.procs")).is_ok_and(|pids| !pids.trim().is_empty());
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    own || entries.map(|entry| entry.path()).filter(|path| path.is_dir()).any(|path| in_use(&path))
}

fn mounts() -> BTreeSet<PathBuf> {
    docker::mounts(&paths::root()).into_iter().collect()
}

/// Cgroups with this project's name, at the top of each hierarchy.
fn cgroups() -> BTreeSet<PathBuf> {
    let top = PathBuf::from("/sys/fs/cgroup");
    let folders = |dir: &PathBuf| -> Vec<PathBuf> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir() && !path.is_symlink()).collect()
    };
    let first = folders(&top);
    let second: Vec<PathBuf> = first.iter().flat_map(&folders).collect();
    let ours = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("thermae"));
    first.into_iter().chain(second).filter(ours).collect()
}

/// The bridges of Docker's networks.
fn bridges() -> BTreeSet<String> {
    let entries = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with("br-")).collect()
}

/// The sets of test services that have a living server.
fn running_sets() -> BTreeSet<String> {
    let entries = fs::read_dir(paths::services("")).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|name| Set::open(name).is_ok_and(|set| set.services().any(|(_, running)| running.main.alive())))
        .collect()
}
