//! Checks the dependencies: licences, bans and duplicates by the rules of `deny.toml`, and how many there are.
//!
//! cargo-deny reads `deny.toml` better where it is installed. Building it takes many minutes on two cores, so this
//! module checks the main rules of the same file over `cargo tree` where cargo-deny is missing.

mod licences;
pub(crate) mod tree;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::paths;
use tree::Tree;

/// The most crates that `cargo run`, the first command of the README, may build.
const MOST_CRATES: usize = 303;

/// The part of `deny.toml` that is checked here. Other keys are cargo-deny's own.
#[derive(Debug, Deserialize)]
struct Rules {
    licenses: Licenses,
    bans: Bans,
}

#[derive(Debug, Deserialize)]
struct Licenses {
    allow: BTreeSet<String>,
}

#[derive(Debug, Deserialize)]
struct Bans {
    #[serde(default)]
    deny: Vec<Banned>,
    #[serde(default)]
    skip: Vec<Skipped>,
}

/// A banned crate, why it is banned, and the crates that may use it nevertheless.
#[derive(Debug, Deserialize)]
struct Banned {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
    #[serde(default)]
    wrappers: BTreeSet<String>,
}

/// A crate that may be there beside another version of itself. `syn@2` is every 2.x version of syn; `syn` is every one.
#[derive(Debug, Deserialize)]
struct Skipped {
    #[serde(rename = "crate")]
    rule: String,
}

impl Skipped {
    fn holds(&self, name: &str, version: &str) -> bool {
        let (ruled, prefix) = self.rule.split_once('@').unwrap_or((&self.rule, version));
        ruled == name && format!("{version}.").starts_with(&format!("{prefix}."))
    }
}

/// Checks the workspace's dependencies by the rules of `deny.toml`. The error has every breach.
pub(crate) fn check() -> Result<()> {
    let text = std::fs::read_to_string(paths::root().join("deny.toml")).context("read deny.toml")?;
    let rules: Rules = toml::from_str(&text).context("read deny.toml")?;
    let breaches = breaches(&rules, &tree::read(&["--workspace"])?);
    ensure!(breaches.is_empty(), "{}", breaches.join("; "));
    Ok(())
}

/// Checks how many crates `cargo run` builds on this machine, and that a build of the workspace uses the same.
pub(crate) fn first_build() -> Result<()> {
    few_enough(tree::read(&["--package", "thermae", "--edges", "normal,build"])?.len())?;
    let mut own = BTreeSet::new();
    // What macros use is built for them apart, and may have other features there. So the rest is compared alone, too.
    for (first, all) in [("normal,build", "normal,build,dev"), ("normal,no-proc-macro", "normal,dev,no-proc-macro")] {
        let all = tree::features(&["--workspace", "--edges", all])?;
        let first = tree::features(&["--package", "thermae", "--edges", first])?;
        own.extend(first.into_iter().filter(|crate_| !all.contains(crate_)));
    }
    let own: Vec<String> = own.into_iter().collect();
    ensure!(
        own.is_empty(),
        "`cargo run` builds these crates with other features than a build of the workspace, which builds them again: {}; \
         give them the same features in both (worker/Cargo.toml has an example)",
        own.join(", ")
    );
    Ok(())
}

fn few_enough(crates: usize) -> Result<()> {
    ensure!(
        crates <= MOST_CRATES,
        "`cargo run` builds {crates} crates, more than {MOST_CRATES}: drop the new dependency or some of its features \
         (`cargo tree -p thermae -e normal,build -i CRATE` shows what needs it); if it is worth a longer first build, \
         raise MOST_CRATES in xtask/src/deny/mod.rs"
    );
    Ok(())
}

/// One line for each breach.
fn breaches(rules: &Rules, tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for ((name, version), package) in tree {
        if !licences::satisfied(&package.licence, &rules.licenses.allow) {
            found.push(format!("{name} {version}: the licence {:?} is not allowed", package.licence));
        }
        let ban = rules.bans.deny.iter().find(|ban| ban.name == *name);
        if let Some(ban) = ban.filter(|ban| !package.users.is_subset(&ban.wrappers)) {
            found.push(format!("{name} {version}: is banned: {}", ban.reason));
        }
        if !rules.bans.skip.iter().any(|skipped| skipped.holds(name, version)) {
            versions.entry(name).or_default().push(version);
        }
    }
    versions.retain(|_, versions| versions.len() > 1);
    found.extend(
        versions
            .iter()
            .map(|(name, versions)| format!("{name}: {} versions at once ({})", versions.len(), versions.join(", "))),
    );
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "
        [licenses]
        allow = ['MIT']
        [bans]
        deny = [{ crate = 'bad', reason = 'because', wrappers = ['good'] }]
        skip = [{ crate = 'two@1', reason = 'moving' }, { crate = 'four', reason = 'all of them' }]
    ";

    fn found(tree: &str) -> Vec<String> {
        breaches(&toml::from_str(RULES).unwrap(), &tree::parse(tree).unwrap())
    }

    #[test]
    fn what_is_banned_may_come_by_way_of_its_wrappers_alone() {
        let good = "0|us v0.1.0|MIT|\n1|good v1.0.0|MIT|\n2|bad v1.0.0|MIT|\n";
        assert_eq!(found(good), [""; 0]);
        assert_eq!(found(&format!("{good}1|bad v1.0.0|MIT| (*)\n")), ["bad 1.0.0: is banned: because"]);
    }

    #[test]
    fn each_kind_of_breach_is_named() {
        let others = ["left v1.0.0|GPL-3.0", "none v1.0.0|", "bad v1.0.0|MIT", "two v1.4.0|MIT", "two v2.0.0|MIT"];
        let more = ["two v10.0.0|MIT", "three v1.0.0|MIT", "three v2.0.0|MIT", "four v1.0.0|MIT", "four v2.0.0|MIT"];
        let tree: String = others.iter().chain(&more).map(|package| format!("1|{package}|\n")).collect();
        assert_eq!(
            found(&format!("0|us v0.1.0|MIT|\n{tree}")),
            [
                "bad 1.0.0: is banned: because",
                "left 1.0.0: the licence \"GPL-3.0\" is not allowed",
                "none 1.0.0: the licence \"\" is not allowed",
                "three: 2 versions at once (1.0.0, 2.0.0)",
                "two: 2 versions at once (10.0.0, 2.0.0)",
            ]
        );
    }

    #[test]
    fn too_many_crates_are_counted_and_it_is_said_what_to_do() {
        few_enough(MOST_CRATES).unwrap();
        let error = few_enough(MOST_CRATES + 1).unwrap_err().to_string();
        let said = [&(MOST_CRATES + 1).to_string(), "cargo tree", "raise MOST_CRATES", file!()];
        assert!(said.iter().all(|part| error.contains(*part)), "{error}");
    }
}
