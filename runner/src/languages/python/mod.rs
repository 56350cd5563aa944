//! Python: its three zygotes, and the modules that they load before any job.
//!
//! - *bare*: an interpreter with the harness only.
//! - *common*: also holds the modules of the standard library that many programs import ([`scan::COMMON`]).
//! - *loaded*: also holds the modules of the preload list.

mod interpreter;
mod layout;
pub(crate) mod scan;
mod zygote;

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Additions, Language, Zygote, ZygoteContext, ZygoteInfo};
use crate::error::Result;
use crate::frames::{Place, Run};
use crate::outer::COMMANDS;

const BARE: usize = 0;
const COMMON: usize = 1;
const LOADED: usize = 2;

/// What programs are told that look for packages.
macro_rules! no_network {
    () => {
        "a sandbox has no network: name packages in Sandbox(packages=[...]), or choose an interpreter that has them \
         (thermae --python)"
    };
}

/// What Python adds to the environment of every program.
const ENVIRONMENT: [&str; 18] = [
    "MPLBACKEND=Agg",
    "MPLCONFIGDIR=/tmp/matplotlib",
    "PYTHONDONTWRITEBYTECODE=1",
    // Numeric libraries get one thread each, because a zygote must be single-threaded to be forked from.
    "OPENBLAS_NUM_THREADS=1",
    "OMP_NUM_THREADS=1",
    "MKL_NUM_THREADS=1",
    "NUMEXPR_NUM_THREADS=1",
    "ARROW_DEFAULT_MEMORY_POOL=system",
    // Pip opens this file before its first connection. There is none, and pip ends with its name, in place of several
    // tries to connect.
    concat!("PIP_CERT=/", no_network!()),
    // Git refuses this proxy before it looks for the host, so pip's `git+https://` ends with its name, too.
    "GIT_CONFIG_COUNT=1",
    "GIT_CONFIG_KEY_0=http.proxy",
    concat!("GIT_CONFIG_VALUE_0=", no_network!()),
    concat!("GIT_SSH_COMMAND=echo '", no_network!(), "' >&2; exit 1 #"),
    "PIP_DISABLE_PIP_VERSION_CHECK=1",
    // Else the pip of Debian's interpreter advises to run apt. What the machine has can't be written to anyway.
    "PIP_BREAK_SYSTEM_PACKAGES=1",
    "PIP_ROOT_USER_ACTION=ignore",
    "UV_OFFLINE=1",
    // Uv reads this file before it looks for packages. It is a list, so no name in it has a space.
    "UV_CONSTRAINT=/a_sandbox_has_no_network:_name_packages_in_Sandbox(packages=[...]),_or_choose_an_interpreter_that_has_\
     them_(thermae_--python)",
];

/// The options of Python in [`crate::frames::Setup::languages`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Options {
    /// Absolute path of the interpreter inside the container.
    pub path: String,
    /// Absolute paths of directories in the container whose modules programs can import, in addition to the
    /// interpreter's own. None has a colon.
    #[serde(default)]
    pub python_path: Vec<String>,
    /// Modules that the loaded zygote imports; if empty, there is no loaded zygote. Missing ones are skipped and
    /// reported.
    pub preload: Vec<String>,
    /// Whether the loaded zygote starts at once. If not, it starts when a job first imports one of its modules.
    pub preload_eager: bool,
}

struct Python(Options);

pub(super) fn open(options: &Value) -> Result<Box<dyn Language>> {
    Ok(Box::new(Python(Options::deserialize(options)?)))
}

impl Language for Python {
    fn path(&self) -> &str {
        &self.0.path
    }

    fn extension(&self) -> &'static str {
        "py"
    }

    /// The commands of [`Options::python_path`] come first, as its modules do, and then those of the interpreter.
    fn additions(&self) -> Additions {
        let Options { path, python_path, .. } = &self.0;
        let installed = python_path.iter().map(|folder| format!("{folder}/bin"));
        let own = path.rsplit_once('/').map(|(folder, _)| folder.to_owned());
        let links = Path::new(COMMANDS).is_dir().then(|| COMMANDS.to_owned());
        // Zygotes read this variable themselves, since they start with `-I`.
        let modules = (!python_path.is_empty()).then(|| format!("PYTHONPATH={}", python_path.join(":")));
        Additions {
            commands: installed.chain(links).chain(own).collect(),
            variables: ENVIRONMENT.into_iter().map(str::to_owned).chain(modules).collect(),
        }
    }

    fn zygotes(&self) -> usize {
        3
    }

    fn is_eager(&self, zygote: usize) -> bool {
        zygote == BARE || zygote == LOADED && self.0.preload_eager && !self.0.preload.is_empty()
    }

    fn choose(&self, run: &Run) -> usize {
        match () {
            () if scan::imports_any(&run.code, &self.0.preload) => LOADED,
            // Only a session's first program is known here, and many will follow.
            () if matches!(run.place, Place::Session { .. }) || scan::wants_common(&run.code) => COMMON,
            () => BARE,
        }
    }

    fn start(&self, zygote: usize, context: &ZygoteContext) -> Result<Zygote> {
        let common: &[&str] = if zygote == BARE { &[] } else { &scan::COMMON };
        let preload = if zygote == LOADED { self.0.preload.as_slice() } else { &[] };
        zygote::start(context, &self.0.path, common, preload)
    }

    /// Without a module of its list, the loaded zygote would be a second common one.
    fn is_useful(&self, zygote: usize, info: &ZygoteInfo) -> bool {
        zygote != LOADED || !info.preloaded.is_empty()
    }
}

/// Names and sources of the harness and its parts. A zygote loads them in this order, so each may import those before
/// it. The last one has the class `Harness`.
const HARNESS: [(&str, &str); 15] = [
    ("zygote_pages", include_str!("zygote_pages.py")),
    ("harness_errors", include_str!("harness_errors.py")),
    ("harness_waits", include_str!("harness_waits.py")),
    // The package for Python writes values in the same forms, and shows the same text about a tool.
    ("json_forms", include_str!("../../../../sdk/python/src/thermae/_json_forms.py")),
    ("tool_text", include_str!("../../../../sdk/python/src/thermae/_tool_text.py")),
    ("harness_channel", include_str!("harness_channel.py")),
    ("harness_inputs", include_str!("harness_inputs.py")),
    ("harness_traceback", include_str!("harness_traceback.py")),
    ("harness_code", include_str!("harness_code.py")),
    ("harness_show", include_str!("harness_show.py")),
    ("harness_streams", include_str!("harness_streams.py")),
    ("harness_docs", include_str!("harness_docs.py")),
    ("harness_tools", include_str!("harness_tools.py")),
    ("harness_libraries", include_str!("harness_libraries.py")),
    ("harness", include_str!("harness.py")),
];
