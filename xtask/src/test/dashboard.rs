//! Reads the dashboard with Grafana's own data model. Grafana itself silently ignores fields that it doesn't know.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, ensure};

use crate::{images::fingerprint, paths, services::packages};

/// Grafana's data model, and typeguard, which checks its types, with its dependency. The model is from the "next"
/// branch: the Grafana of `compose.yaml` is newer than the numbered branches.
const PACKAGES: [&str; 3] = ["grafana-foundation-sdk==1769699241", "typeguard==4.6.1", "typing_extensions==4.16.0"];
const READER: &str = include_str!("dashboard.py");

/// Fails with a list of fields that Grafana doesn't know, and of values with a wrong type.
pub(super) fn check() -> Result<()> {
    let python = packages::python_with("pip", "python3-pip")?;
    let read = Command::new(&python)
        .args(["-c", READER])
        .arg(paths::root().join("dashboards/fleet.json"))
        .env("PYTHONPATH", model(&python)?)
        .output()?;
    ensure!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr).trim());
    Ok(())
}

/// The folder with the packages. They are installed once and kept.
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
