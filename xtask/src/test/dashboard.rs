//! The dashboard, read by Grafana's own model of it. Grafana leaves out in silence what it doesn't know.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, ensure};

use crate::{images::fingerprint, paths, services::packages};

/// Grafana's model as a Python package, of the "next" branch: compose's Grafana is newer than the package's numbered
/// branches. What checks the model's types, and what that needs.
const PACKAGES: [&str; 3] = ["grafana-foundation-sdk==1769699241", "typeguard==4.6.1", "typing_extensions==4.16.0"];
const READER: &str = include_str!("dashboard.py");

/// Fails with each field that Grafana doesn't know and each value of a wrong type.
pub(super) fn check() -> Result<()> {
    let python = packages::python_with_pip()?;
    let read = Command::new(&python)
        .args(["-c", READER])
        .arg(paths::root().join("dashboards/fleet.json"))
        .env("PYTHONPATH", model(&python)?)
        .output()?;
    ensure!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr).trim());
    Ok(())
}

/// The folder with the packages, which are installed once.
fn model(python: &Path) -> Result<PathBuf> {
    let folder = paths::target().join(format!("grafana-{}", fingerprint(&PACKAGES.map(str::as_bytes))));
    if !folder.is_dir() {
        let part = folder.with_extension("part");
        let pip = Command::new(python)
            .args(["-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--only-binary=:all:"])
            .args(["--disable-pip-version-check", "--root-user-action", "ignore", "--upgrade", "--target"])
            .arg(&part)
            .args(PACKAGES)
            .output()?;
        ensure!(pip.status.success(), "pip: {}", String::from_utf8_lossy(&pip.stderr).trim());
        fs::rename(&part, &folder)?;
    }
    Ok(folder)
}
