//! The tree of dependencies, as `cargo tree` prints it for this machine.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};

use crate::cargo;

/// What is known of a package.
#[derive(Debug, Default)]
pub(crate) struct Package {
    /// Its licence as an SPDX expression; empty if it names none.
    pub(crate) licence: String,
    /// Names of the packages that depend on it.
    pub(crate) users: BTreeSet<String>,
}

/// Packages by name and version.
pub(crate) type Tree = BTreeMap<(String, String), Package>;

/// The packages that the locked workspace uses. `choice` is what `cargo tree` is told of roots and edges.
pub(crate) fn read(choice: &[&str]) -> Result<Tree> {
    let mut command =
        cargo::command(&["tree", "--locked", "--color", "never", "--prefix", "depth", "--format", "|{p}|{l}|"]);
    let output = command.args(choice).output().context("start cargo tree")?;
    ensure!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr).trim());
    parse(&String::from_utf8(output.stdout)?)
}

/// The packages with their features, one text for each.
pub(crate) fn features(choice: &[&str]) -> Result<BTreeSet<String>> {
    let mut command =
        cargo::command(&["tree", "--locked", "--color", "never", "--prefix", "none", "--format", "{p} with {f}"]);
    let output = command.args(choice).output().context("start cargo tree")?;
    ensure!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr).trim());
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().filter(|line| !line.is_empty()).map(|line| line.trim_end_matches(" (*)").to_owned()).collect())
}

/// Reads lines of the form `DEPTH|NAME vVERSION …|LICENCE|`. The user of a package is the last one above it whose depth
/// is one less. What a package uses is listed only where the package comes first.
pub(crate) fn parse(text: &str) -> Result<Tree> {
    let mut tree = Tree::new();
    let mut path: Vec<&str> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let fields = || {
            let (depth, rest) = line.split_once('|')?;
            let (package, rest) = rest.split_once('|')?;
            let (name, version) = package.split_once(" v")?;
            let version = version.split(' ').next()?;
            Some((depth.parse().ok()?, name, version, rest.split_once('|')?.0))
        };
        let (depth, name, version, licence) = fields().with_context(|| format!("cargo tree printed {line:?}"))?;
        path.truncate(depth);
        let package = tree.entry((name.to_owned(), version.to_owned())).or_default();
        package.licence = licence.to_owned();
        package.users.extend(path.last().map(ToString::to_string));
        path.push(name);
    }
    Ok(tree)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_packages_and_their_users() {
        let text = "0|us v0.1.0 (/a/folder)|Apache-2.0|\n1|a v1.0.0|MIT OR ISC|\n2|c v2.0.0 (proc-macro)||\n\
                    1|b v1.0.0+x|MIT|\n2|a v1.0.0|MIT OR ISC| (*)\n\n0|other v0.1.0|MIT|\n1|c v1.0.0|MIT|\n";
        let read = parse(text).unwrap();
        let shown: Vec<String> = read
            .iter()
            .map(|((name, version), Package { licence, users })| format!("{name} {version} {licence:?} {users:?}"))
            .collect();
        assert_eq!(
            shown,
            [
                r#"a 1.0.0 "MIT OR ISC" {"b", "us"}"#,
                r#"b 1.0.0+x "MIT" {"us"}"#,
                r#"c 1.0.0 "MIT" {"other"}"#,
                r#"c 2.0.0 "" {"a"}"#,
                r#"other 0.1.0 "MIT" {}"#,
                r#"us 0.1.0 "Apache-2.0" {}"#,
            ]
        );
        assert!(parse("us v0.1.0\n").is_err());
    }
}
