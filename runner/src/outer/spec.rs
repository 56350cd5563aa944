//! What the native outer wall shows and allows: the JSON of `--outer`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::mounts;

/// The native container: what it sees of this machine, and its bounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Absolute path of the interpreter that the container shows (no shim). It goes into the options of its language in
    /// [`crate::frames::Setup::languages`], too.
    pub interpreter: String,
    /// Directories or files shown read-only at their own paths, beyond `/usr`, `/lib*`, `/bin`, `/sbin` and a few files
    /// of `/etc`.
    pub show: Vec<String>,
    /// Symbolic links that are made again at their own paths with their own targets. They lead to the interpreter
    /// through folders that are not shown.
    #[serde(default)]
    pub links: Vec<String>,
    /// Directories below those of `show` that are covered by an empty one.
    #[serde(default)]
    pub hide: Vec<String>,
    /// Names of commands that the system's directories lack or have otherwise, with the paths of the programs.
    #[serde(default)]
    pub commands: BTreeMap<String, String>,
    /// Directories or files shown read-only at `/data/<name>`, by their names there.
    #[serde(default)]
    pub data: BTreeMap<String, String>,
    /// The host user that the container's processes run as, if this process is root; ignored otherwise. Give each
    /// container its own, so that containers don't share the kernel's per-user limits. `None` takes one that is derived
    /// from the runner's pid.
    pub uid: Option<u32>,
    /// Most memory of the whole container, in bytes. This limit and those below hold only if this process may make a
    /// control group.
    pub memory_bytes: Option<u64>,
    /// Most processes and threads of the whole container.
    pub pids: Option<u32>,
    /// Weight of the whole container when processors are short. A single process has 1024.
    #[serde(default)]
    pub cpu_shares: Option<u32>,
    /// Most processor time of the whole container, in hundredths of a processor.
    #[serde(default)]
    pub cpu_quota: Option<u32>,
}

/// Base of the host user ids that containers run as: the runner's pid is added. Far above the ids that distributions
/// assign.
const FIRST_UID: u32 = 2_000_000_000;

/// Directories of which every sandbox has its own. A path below them can be shown, but never one of them as a whole.
const OWN: [&str; 4] = ["/tmp", "/workspace", "/session", "/data"];

/// The kernel's own file systems: nothing of the machine is shown at or below these paths.
const KERNEL: [&str; 3] = ["/dev", "/proc", "/sys"];

impl Spec {
    /// A container that shows these paths and runs programs by this interpreter. It has no limits yet.
    pub(crate) fn showing(interpreter: &Path, show: &[PathBuf], links: &[PathBuf], hide: &[PathBuf]) -> Self {
        let texts = |paths: &[PathBuf]| paths.iter().map(|p| p.to_string_lossy().into_owned()).collect();
        Self {
            interpreter: interpreter.to_string_lossy().into_owned(),
            show: texts(show),
            links: texts(links),
            hide: texts(hide),
            commands: BTreeMap::new(),
            data: BTreeMap::new(),
            uid: None,
            memory_bytes: None,
            pids: None,
            cpu_shares: None,
            cpu_quota: None,
        }
    }

    /// The first path that can't be shown, because every sandbox has one of its own in its place.
    pub(crate) fn unshowable(&self) -> Option<&str> {
        let unshowable = |p: &&String| OWN.contains(&p.as_str()) || KERNEL.iter().any(|k| mounts::at_or_below(p, k));
        self.show.iter().chain(&self.links).find(unshowable).map(String::as_str)
    }

    /// Paths that are shown below places where a sandbox mounts its own storage.
    pub(crate) fn covered(&self) -> Vec<String> {
        let below = |path: &&String| ["/tmp", "/workspace", "/session"].iter().any(|o| mounts::at_or_below(path, o));
        self.show.iter().chain(&self.links).filter(below).cloned().collect()
    }

    /// Chooses the user if none was given. It differs between all runners that are alive on this machine.
    pub(crate) fn choose_user(&mut self) {
        self.uid.get_or_insert(FIRST_UID + std::process::id());
    }
}
