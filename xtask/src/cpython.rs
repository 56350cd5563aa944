//! `cargo xtask cpython`: runs CPython's own tests in sandboxes and outside, and compares them case by case.
//!
//! `thermae-conformance` does the work. This module only installs the interpreter's tests if they are missing.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::{cargo, services::packages, supervise};

/// The distribution's interpreter. Its tests are in a package of their own.
const PYTHON: &str = "/usr/bin/python3";

/// Longer than all tests take on a busy machine, inside and outside.
const LIMIT: Duration = Duration::from_secs(7200);

/// What to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Python interpreter to test. If the distribution's own one lacks its tests, they are installed.
    #[arg(long, default_value = PYTHON)]
    python: PathBuf,
    /// Run only these modules (comma-separated).
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Run only a dozen fast modules.
    #[arg(long)]
    quick: bool,
}

/// Builds `thermae-conformance` and runs it. The exit status is 1 if a case differs without an explanation.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    supervise::begin()?;
    ensure_tests(&options.python)?;
    let mut command = cargo::command(&["run", "--quiet", "--package", "thermae-conformance", "--"]);
    command.arg("--python").arg(&options.python);
    if !options.only.is_empty() {
        command.arg("--only").arg(options.only.join(","));
    }
    if options.quick {
        command.arg("--quick");
    }
    let finished = supervise::run(command, &crate::test::log("cpython"), LIMIT, |line| println!("{line}"))?;
    Ok(if finished.failure.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Installs the tests of the distribution's interpreter if they are missing.
pub(crate) fn ensure_distribution_tests() -> Result<()> {
    ensure_tests(Path::new(PYTHON))
}

fn ensure_tests(python: &Path) -> Result<()> {
    if has_tests(python)? {
        return Ok(());
    }
    ensure!(
        python == Path::new(PYTHON),
        "{} lacks the package `test`: use one that was built with it",
        python.display()
    );
    let version = ask(python, "import sys; print('%d.%d' % sys.version_info[:2])")?;
    packages::install(&[&format!("libpython{}-testsuite", version.trim())])?;
    ensure!(has_tests(python)?, "the package of tests was installed, but {} still has none", python.display());
    Ok(())
}

/// Distributions leave out most of the package `test`, but not all of it, so two of its modules are looked up.
fn has_tests(python: &Path) -> Result<bool> {
    let found =
        ask(python, "import importlib.util as i; print(all(map(i.find_spec, ('test.test_dict', 'test.test_json'))))")?;
    Ok(found.trim() == "True")
}

fn ask(python: &Path, program: &str) -> Result<String> {
    let mut command = Command::new(python);
    command.args(["-I", "-c", program]).stdin(Stdio::null());
    let output = command.output().with_context(|| format!("start {}", python.display()))?;
    ensure!(output.status.success(), "{}: {}", python.display(), String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
