//! What the native outer wall shows and allows: the JSON of `--outer`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::layout::Layout;
use crate::error::{Error, Result};
use crate::mounts;

/// The native container: what it sees of this machine, and its bounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Absolute path of the real interpreter (no shim); put it into [`crate::frames::Setup::python`] too.
    pub python: String,
    /// Directories or files shown read-only at their own paths, beyond `/usr`, `/lib*`, `/bin`, `/sbin` and a few files of `/etc`.
    pub show: Vec<String>,
    /// Symbolic links made anew at their own paths, with what they lead to: the interpreter's way through folders that are not shown.
    #[serde(default)]
    pub links: Vec<String>,
    /// Directories below those with an empty one in their places.
    #[serde(default)]
    pub hide: Vec<String>,
    /// Directories or files shown read-only at `/data/<name>`, by that name.
    #[serde(default)]
    pub data: BTreeMap<String, String>,
    /// The host user that the container's processes run as, where this process may choose (root). Give each container
    /// its own: per-user limits of the kernel are then not shared. Ignored for an ordinary user.
    pub uid: Option<u32>,
    /// Memory of the whole container in bytes, by control group where this process has the right to make one.
    pub memory_bytes: Option<u64>,
    /// Processes and threads of the whole container, by control group.
    pub pids: Option<u32>,
    /// Weight of the whole container where processors are short (1024 is that of one process), by control group.
    #[serde(default)]
    pub cpu_shares: Option<u32>,
    /// Processors that the whole container may use, in hundredths of one, by control group.
    #[serde(default)]
    pub cpu_quota: Option<u32>,
}

/// First of the host users that containers run as; the runner's own pid is added. Far above what distributions assign.
const FIRST_UID: u32 = 2_000_000_000;

/// Places that are every sandbox's own. What lies below one of them is shown there; the whole of one never is.
const OWN: [&str; 4] = ["/tmp", "/workspace", "/session", "/data"];

/// Places of the kernel's: nothing of the machine is shown at or below them.
const KERNEL: [&str; 3] = ["/dev", "/proc", "/sys"];

impl Spec {
    /// A sane wall for this machine around that interpreter (`None`: the active virtualenv's, else `python3` of `PATH`).
    ///
    /// Shims of pyenv and virtualenvs are resolved by reading files, without starting an interpreter.
    ///
    /// # Errors
    /// [`crate::Error::Interpreter`] when there is none.
    pub fn detect(python: Option<&Path>) -> Result<Self> {
        let found = super::resolve::interpreter(python)?;
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

    /// What is shown below places that a sandbox covers with its own storage.
    pub(crate) fn covered(&self) -> Vec<String> {
        let below = |path: &&String| ["/tmp", "/workspace", "/session"].iter().any(|o| mounts::at_or_below(path, o));
        self.show.iter().chain(&self.links).filter(below).cloned().collect()
    }

    /// Fills in the user where none was chosen: distinct for every runner alive on this machine.
    pub(crate) fn settle(&mut self) {
        self.uid.get_or_insert(FIRST_UID + std::process::id());
    }
}
