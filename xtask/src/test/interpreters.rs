//! Python interpreters of this machine, by version.

use std::{
    ops::RangeInclusive,
    path::{Path, PathBuf},
    process::Command,
};

/// The versions of Python 3 that the package in `sdk/python` is for.
pub(super) const VERSIONS: RangeInclusive<u32> = 11..=13;

/// An interpreter of Python 3.`minor` that can make virtual environments: from `PATH`, or else one that pyenv has.
pub(super) fn find(minor: u32) -> Option<PathBuf> {
    let name = format!("python3.{minor}");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(&name)).filter(|python| python.is_file());
    // A program of this name can be a stand-in of pyenv's for a version that is not selected, which fails.
    on_path.chain(of_pyenv(minor)).find(|python| self::minor(python) == Some(minor))
}

/// The minor version of an interpreter, if it starts and can make virtual environments.
pub(super) fn minor(python: &Path) -> Option<u32> {
    said(Command::new(python).args(["-c", "import ensurepip, sys; print(sys.version_info[1])"]))?.parse().ok()
}

/// The newest of pyenv's interpreters of this version.
fn of_pyenv(minor: u32) -> Option<PathBuf> {
    let versions = said(Command::new("pyenv").args(["versions", "--bare"]))?;
    let version = versions.lines().rfind(|version| version.starts_with(&format!("3.{minor}.")))?;
    let folder = said(Command::new("pyenv").args(["prefix", version]))?;
    Some(Path::new(&folder).join(format!("bin/python3.{minor}")))
}

/// What a command printed; nothing if it failed.
fn said(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
