//! The licences of the crates that are compiled into the program. Most of them want their text to come with it.

use std::{
    collections::{BTreeMap, BTreeSet},
    env::consts::ARCH,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::{cargo, deny::tree, venv::succeed};

/// How the names of files with licences and notices begin.
const NAMES: [&str; 6] = ["LICENSE", "LICENCE", "UNLICENSE", "COPYING", "COPYRIGHT", "NOTICE"];

/// The part of `cargo metadata` that is used here.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    /// `None` for the workspace's own crates.
    source: Option<String>,
    manifest_path: PathBuf,
}

/// Writes all texts into `file`. Crates with the same text share it.
pub(super) fn write(file: &Path) -> Result<()> {
    let target = format!("{ARCH}-unknown-linux-gnu");
    let used = tree::read(&["--package", "thermae", "--edges", "normal", "--target", &target])?;
    let args = ["metadata", "--locked", "--format-version", "1", "--filter-platform", &target];
    let metadata: Metadata =
        serde_json::from_str(&succeed(&mut cargo::command(&args))?).context("read cargo's metadata")?;
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut all = String::from("The program `thermae` contains Rust's standard library (MIT OR Apache-2.0) and:\n\n");
    for package in metadata.packages.iter().filter(|package| package.source.is_some()) {
        if !used.contains_key(&(package.name.clone(), package.version.clone())) {
            continue;
        }
        let name = format!("{} {}", package.name, package.version);
        writeln!(all, "{name} ({})", package.license.as_deref().unwrap_or("see below"))?;
        for text in texts_of(package)? {
            texts.entry(text).or_default().insert(name.clone());
        }
    }
    for (text, names) in texts {
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        writeln!(all, "\n{}\n{names}\n\n{text}", "-".repeat(80))?;
    }
    fs::write(file, all).with_context(|| format!("write {}", file.display()))
}

fn texts_of(package: &Package) -> Result<Vec<String>> {
    let folder = package.manifest_path.parent().context("a manifest is in a folder")?;
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        if NAMES.iter().any(|start| name.starts_with(start)) && entry.file_type()?.is_file() {
            let text = String::from_utf8_lossy(&fs::read(entry.path())?).replace("\r\n", "\n");
            texts.push(text.trim().to_owned());
        }
    }
    Ok(texts)
}
