//! Programs of an earlier commit, for tests that mix releases in one fleet.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};

use crate::{cargo, paths, supervise};

/// The last commit that speaks only protocols 1 and 2. The next version of the protocol moves this on, to the last
/// commit that speaks only the versions before it.
const COMMIT: &str = "5a37a653e1f37485aae9b6eb663fd994f2f7373e";

const PROGRAMS: [&str; 2] = ["thermae-scheduler", "thermae-worker"];

/// The folder of the older programs; `None` if they are not built.
pub(crate) fn programs() -> Option<PathBuf> {
    let bin = folder().join("bin");
    PROGRAMS.iter().all(|name| bin.join(name).is_file()).then_some(bin)
}

/// Whether git has the older commit here. A copy of the tree without its history has not.
pub(crate) fn is_in_history() -> bool {
    let asked = git(&["cat-file", "-e", &format!("{COMMIT}^{{commit}}")]).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

/// A git command in this tree, whoever owns its files.
fn git(args: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.args(["-c", "safe.directory=*"]).args(args).current_dir(paths::root());
    command
}

fn folder() -> PathBuf {
    paths::target().join("older").join(&COMMIT[..12])
}

/// Builds the older programs, unless they are there.
///
/// The build shares its target folder with this tree, and so the compiled dependencies. It therefore replaces this
/// tree's own programs; the next build of this tree puts them back.
pub(crate) fn ensure() -> Result<()> {
    if programs().is_some() {
        return Ok(());
    }
    let bin = folder().join("bin");
    let source = folder().join("source");
    check_out(&source)?;
    let mut build = cargo::command(&["build", "--release", "--workspace", "--color", "never"]);
    build.args(PROGRAMS.iter().flat_map(|name| ["--bin", name])).arg("--target-dir").arg(paths::target());
    build.current_dir(&source);
    let finished = supervise::run(build, &folder().join("build.log"), Duration::from_secs(1800), |_| {})?;
    if let Some(why) = finished.failure {
        bail!("the programs of commit {COMMIT} could not be built: {why}; see {}", finished.log.display());
    }
    std::fs::create_dir_all(&bin)?;
    for name in PROGRAMS {
        // A rename makes sure that a program that is there is whole.
        let part = bin.join(format!("{name}.part"));
        std::fs::copy(paths::release().join(name), &part).with_context(|| format!("copy {name}"))?;
        std::fs::rename(&part, bin.join(name))?;
    }
    std::fs::remove_dir_all(&source).context("remove the older sources")
}

/// Writes the files of the commit to `source`.
fn check_out(source: &Path) -> Result<()> {
    if source.exists() {
        std::fs::remove_dir_all(source)?;
    }
    std::fs::create_dir_all(source)?;
    let mut archive = git(&["archive", "--format=tar", COMMIT]).stdout(Stdio::piped()).spawn().context("run git")?;
    let files = archive.stdout.take().context("git has no output")?;
    let unpacked = Command::new("tar").arg("-x").current_dir(source).stdin(files).status().context("run tar")?;
    ensure!(archive.wait()?.success(), "git could not give the files of commit {COMMIT}");
    ensure!(unpacked.success(), "tar could not unpack the files of commit {COMMIT}");
    Ok(())
}
