//! What the native outer wall shows and allows: the JSON of `--outer`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The native container: what it sees of this machine, and its bounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Absolute path of the real interpreter (no shim); put it into [`crate::frames::Setup::python`] too.
    pub python: String,
    /// Directories or files shown read-only at their own paths, beyond `/usr`, `/lib*`, `/bin`, `/sbin` and a few files of `/etc`.
    pub show: Vec<String>,
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
}

/// First of the host users that containers run as; the runner's own pid is added. Far above what distributions assign.
const FIRST_UID: u32 = 2_000_000_000;

/// Places that sandboxes cover with their own.
const COVERED: [&str; 7] = ["/tmp", "/workspace", "/session", "/data", "/dev", "/proc", "/sys"];

impl Spec {
    /// A sane wall for this machine around that interpreter (`None`: the active virtualenv's, else `python3` of `PATH`).
    ///
    /// Shims of pyenv and virtualenvs are resolved by reading files, without starting an interpreter.
    ///
    /// # Errors
    /// [`crate::Error::Interpreter`] when there is none.
    pub fn detect(python: Option<&Path>) -> Result<Self> {
        let found = super::resolve::interpreter(python)?;
        if let Some(hidden) = found.show.iter().find(|p| COVERED.iter().any(|c| p.starts_with(c))) {
            return Err(Error::Interpreter {
                path: found.python.display().to_string(),
                reason: format!("{} is where every sandbox has storage of its own; put it elsewhere", hidden.display()),
            });
        }
        Ok(Self {
            python: found.python.to_string_lossy().into_owned(),
            show: found.show.iter().map(|p| p.to_string_lossy().into_owned()).collect(),
            data: BTreeMap::new(),
            uid: None,
            memory_bytes: None,
            pids: None,
        })
    }

    /// Fills in the user where none was chosen: distinct for every runner alive on this machine.
    pub(crate) fn settle(&mut self) {
        self.uid.get_or_insert(FIRST_UID + std::process::id());
    }
}
