//! Virtual environments of Python: tools from the package index, and empty ones to try a package in.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::{services::packages, supervise};

/// Variables that change what an interpreter or `thermae` does begin like this.
const OF_CALLER: [&str; 3] = ["PYTHON", "THERMAE_", "VIRTUAL_ENV"];

/// A virtual environment.
#[derive(Debug)]
pub(crate) struct Venv {
    dir: PathBuf,
}

impl Venv {
    /// An environment with pip and these packages from the package index. What is in `dir` is used again if it has the
    /// same packages.
    pub(crate) fn with(dir: PathBuf, packages: &[&str]) -> Result<Self> {
        Self::of(dir, None, packages)
    }

    /// As [`Venv::with`], of this interpreter; by default, the machine's usual one.
    pub(crate) fn of(dir: PathBuf, python: Option<&Path>, packages: &[&str]) -> Result<Self> {
        let stamp = dir.join("packages");
        if fs::read_to_string(&stamp).is_ok_and(|there| there == packages.join(" ")) {
            return Ok(Self { dir });
        }
        eprintln!("installing {} in {}", packages.join(", "), dir.display());
        let venv = Self::make(dir, python, &[])?;
        venv.run("pip", &[&["install", "--quiet", "--disable-pip-version-check"], packages].concat())?;
        fs::write(stamp, packages.join(" "))?;
        Ok(venv)
    }

    /// An environment with nothing, not even pip.
    pub(crate) fn empty(dir: PathBuf) -> Result<Self> {
        Self::make(dir, None, &["--without-pip"])
    }

    fn make(dir: PathBuf, python: Option<&Path>, options: &[&str]) -> Result<Self> {
        if dir.exists() {
            fs::remove_dir_all(&dir).with_context(|| format!("remove {}", dir.display()))?;
        }
        let usual = || packages::python_with("ensurepip", "python3-venv");
        let mut command = Command::new(python.map_or_else(usual, |python| Ok(python.to_path_buf()))?);
        command.args(["-m", "venv"]).args(options).arg(&dir);
        forget_caller(&mut command);
        succeed(&mut command)?;
        Ok(Self { dir })
    }

    /// Runs a program of the environment. Gives what it printed.
    pub(crate) fn run(&self, program: &str, args: &[&str]) -> Result<String> {
        succeed(self.command(program).args(args))
    }

    /// A command with a program of the environment. Its `PATH` has only the environment's and the system's programs.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs().join(program));
        forget_caller(&mut command);
        command.env("PATH", format!("{}:/usr/bin:/bin", self.programs().display()));
        command
    }

    /// The folder of the environment's programs.
    pub(crate) fn programs(&self) -> PathBuf {
        self.dir.join("bin")
    }
}

fn forget_caller(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if OF_CALLER.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
}

/// Runs a command to its end. Gives what it printed; if it fails, the error has that, too.
pub(crate) fn succeed(command: &mut Command) -> Result<String> {
    let output = supervise::output(command.stderr(Stdio::piped()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let name = Path::new(command.get_program()).file_name().unwrap_or_default().display();
        bail!("{name}: {}\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr).trim_end());
    }
    Ok(text.into_owned())
}
