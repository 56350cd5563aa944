//! The test programs of the workspace, as cargo has built them.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Result, bail, ensure};
use serde_json::Value;

use super::steps::{self, forget_caller, log};
use crate::{
    cargo, paths, services,
    supervise::{self, Finished},
};

/// The contract suite.
pub(super) const CONTRACT: &str = "backplane/tests/contract/main.rs";

/// A test program.
#[derive(Debug)]
pub(super) struct Program {
    /// Its source, from the root of the workspace.
    pub(super) source: String,
    /// Its package's folder.
    package: PathBuf,
    file: PathBuf,
}

/// All test programs. They are built now, unless they are there.
pub(super) fn all() -> Result<Vec<Program>> {
    // Build the whole workspace, so that dependencies get the same features and aren't built again.
    let args = ["test", "--release", "--workspace", "--no-run", "--message-format=json-render-diagnostics"];
    let (root, mut programs) = (paths::root(), Vec::new());
    let built = supervise::run(steps::cargo(&args), &log("test-build"), Duration::from_secs(3600), |line| {
        programs.extend(Program::of(line, &root));
    });
    if let Finished { failure: Some(why), log } = built? {
        bail!("{why}; see {}\n{}", log.display(), services::tail(&log, 60));
    }
    ensure!(!programs.is_empty(), "cargo has built no test program");
    programs.sort_by_key(|program| program.source.clone());
    Ok(programs)
}

impl Program {
    /// Reads one of cargo's messages; `None` if it does not tell of a test program of the workspace at `root`.
    fn of(line: &str, root: &Path) -> Option<Self> {
        let said: Value = serde_json::from_str(line).ok()?;
        if said["profile"]["test"] != true {
            return None;
        }
        let source = Path::new(said["target"]["src_path"].as_str()?).strip_prefix(root).ok()?;
        Some(Self {
            source: source.display().to_string(),
            package: Path::new(said["manifest_path"].as_str()?).parent()?.to_path_buf(),
            file: PathBuf::from(said["executable"].as_str()?),
        })
    }

    /// A command that runs it as cargo does, with these arguments.
    pub(super) fn command(&self, arguments: &[String]) -> Command {
        let mut command = Command::new(&self.file);
        forget_caller(&mut command);
        cargo::forget_run(&mut command);
        command.args(arguments).current_dir(&self.package).env("CARGO_MANIFEST_DIR", &self.package);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_program_is_read_from_what_cargo_says() {
        let said = r#"{"manifest_path":"/w/cli/Cargo.toml","target":{"src_path":"/w/cli/tests/fleet/main.rs"},"profile":{"test":TEST},"executable":FILE}"#;
        let of =
            |test: &str, file: &str| Program::of(&said.replace("TEST", test).replace("FILE", file), Path::new("/w"));
        let program = of("true", "\"/w/target/release/deps/fleet-0f\"").unwrap();
        assert_eq!(program.source, "cli/tests/fleet/main.rs");
        let command = program.command(&["some".to_owned()]);
        assert_eq!(command.get_current_dir().unwrap(), "/w/cli");
        assert_eq!(command.get_program(), "/w/target/release/deps/fleet-0f");
        assert!(of("false", "\"/w/target/release/thermae\"").is_none());
        assert!(of("true", "null").is_none());
        assert!(Program::of("   Compiling thermae v0.1.0", Path::new("/w")).is_none());
    }
}
