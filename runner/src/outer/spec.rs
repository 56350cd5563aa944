//! What the native outer wall shows and allows: the JSON of `--outer`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::languages::python::interpreter;
use crate::languages::python::layout::Layout;
use crate::mounts;

/// The native container: what it sees of this machine, and its bounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Absolute path of the real interpreter of Python (no shim). It goes into the options of Python in
    /// [`crate::frames::Setup::languages`], too.
    pub python: String,
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
    /// Makes a specification for this machine that shows the interpreter `python`. `None` means the interpreter of the
    /// active virtualenv, or else `python3` on `PATH`.
    ///
    /// Shims of pyenv and virtualenvs are resolved by reading files, without starting an interpreter.
    ///
    /// # Errors
    /// [`crate::Error::Interpreter`] if there is none, or if it lies in a place that can't be shown.
    pub fn detect(python: Option<&Path>) -> Result<Self> {
        let found = interpreter::find(python)?;
        let Layout { show, links, hide } = found.layout;
        let refused =
            |p: &&PathBuf| OWN.iter().any(|o| p.as_path() == Path::new(o)) || KERNEL.iter().any(|k| p.starts_with(k));
        if let Some(hidden) = show.iter().chain(&links).find(refused) {
            let hidden = hidden.display();
            return Err(Error::Interpreter {
                path: found.python.display().to_string(),
                reason: format!("every sandbox has a {hidden} of its own; put the interpreter into a folder below it"),
            });
        }
        Ok(Self {
            python: found.python.to_string_lossy().into_owned(),
            show: show.iter().map(|p| p.to_string_lossy().into_owned()).collect(),
            links: links.iter().map(|p| p.to_string_lossy().into_owned()).collect(),
            hide: hide.iter().map(|p| p.to_string_lossy().into_owned()).collect(),
            data: BTreeMap::new(),
            uid: None,
            memory_bytes: None,
            pids: None,
            cpu_shares: None,
            cpu_quota: None,
        })
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
