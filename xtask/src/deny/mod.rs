//! Checks the dependencies' bans, licences and sources by the rules of `deny.toml`.
//!
//! cargo-deny does this better where it is installed. Building it takes many minutes on two cores, so this module
//! checks the main rules of the same file over `cargo metadata` where cargo-deny is missing.

mod licences;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::{cargo, paths};

/// The part of `deny.toml` that is checked here. Other keys are cargo-deny's own.
#[derive(Debug, Deserialize)]
pub(crate) struct Rules {
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
    skip: Vec<Named>,
}

/// A crate as `name` or `name@version`. The rule's reason, which is for readers of the file, is ignored.
#[derive(Debug, Deserialize)]
struct Named {
    #[serde(rename = "crate")]
    name: String,
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

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    #[serde(default)]
    dependencies: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    req: String,
    path: Option<String>,
    source: Option<String>,
    /// The registry's address; `None` for the default registry.
    registry: Option<String>,
}

/// Checks the locked dependencies. Gives one line for each breach.
pub(crate) fn check() -> Result<Vec<String>> {
    let text = std::fs::read_to_string(paths::root().join("deny.toml")).context("read deny.toml")?;
    let rules: Rules = toml::from_str(&text).context("read deny.toml")?;
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = cargo::command(&["metadata", "--format-version", "1", "--locked", "--filter-platform", &platform])
        .output()
        .context("start cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let metadata: Metadata = serde_json::from_slice(&output.stdout).context("read cargo's metadata")?;
    Ok(breaches(&rules, &metadata))
}

fn breaches(rules: &Rules, metadata: &Metadata) -> Vec<String> {
    let used: BTreeSet<&str> = metadata.resolve.nodes.iter().map(|node| node.id.as_str()).collect();
    let packages: Vec<&Package> = metadata.packages.iter().filter(|package| used.contains(&*package.id)).collect();
    let default = default_registry(metadata);
    let mut found = Vec::new();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        let Package { name, version, .. } = package;
        match package.license.as_deref() {
            Some(license) if licences::satisfied(license, &rules.licenses.allow) => {}
            Some(license) => found.push(format!("{name} {version}: the licence {license} is not allowed")),
            None => found.push(format!("{name} {version}: has no licence expression")),
        }
        match package.source.as_deref() {
            // A member of the workspace.
            None => found.extend(wildcards(package)),
            Some(source) if Some(source) == default => {}
            Some(source) => found.push(format!("{name} {version}: comes from {source}")),
        }
        if let Some(ban) = rules.bans.deny.iter().find(|ban| ban.name == *name)
            && !users(metadata, &package.id).all(|user| ban.wrappers.contains(user))
        {
            found.push(format!("{name} {version}: is banned: {}", ban.reason));
        }
        if !rules.bans.skip.iter().any(|skip| matches(&skip.name, name, version)) {
            versions.entry(name).or_default().insert(version);
        }
    }
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        let list: Vec<&str> = versions.iter().copied().collect();
        found.push(format!("{name}: {} versions at once ({})", list.len(), list.join(", ")));
    }
    found
}

/// Names of the packages that depend on `id`; the package's own name if no package does.
fn users<'a>(metadata: &'a Metadata, id: &'a str) -> impl Iterator<Item = &'a str> {
    let nodes = metadata.resolve.nodes.iter().filter(move |node| node.dependencies.iter().any(|d| d == id));
    let mut users: Vec<&str> = nodes.map(|node| node.id.as_str()).collect();
    if users.is_empty() {
        users.push(id);
    }
    let named = |user: &str| metadata.packages.iter().find(|package| package.id == user).map(|package| &*package.name);
    users.into_iter().filter_map(named).collect::<Vec<_>>().into_iter()
}

fn wildcards(package: &Package) -> Vec<String> {
    let open = package.dependencies.iter().filter(|dependency| dependency.req == "*" && dependency.path.is_none());
    open.map(|dependency| format!("{}: any version of {} would do", package.name, dependency.name)).collect()
}

/// Cargo's default registry: the one from which the workspace's members take packages without naming a registry.
fn default_registry(metadata: &Metadata) -> Option<&str> {
    let members = metadata.packages.iter().filter(|package| package.source.is_none());
    let mut dependencies = members.flat_map(|member| &member.dependencies);
    dependencies.find_map(|dependency| {
        let source = dependency.source.as_deref()?;
        (dependency.registry.is_none() && source.starts_with("registry+")).then_some(source)
    })
}

/// `syn@2` is every 2.x version of syn; `syn` is every version.
fn matches(rule: &str, name: &str, version: &str) -> bool {
    match rule.split_once('@') {
        None => rule == name,
        Some((ruled, prefix)) => {
            ruled == name
                && (version == prefix || version.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.')))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(packages: &str) -> Metadata {
        let packages: Vec<serde_json::Value> = serde_json::from_str(packages).unwrap();
        let nodes: Vec<serde_json::Value> = packages.iter().map(|p| serde_json::json!({ "id": p["id"] })).collect();
        serde_json::from_value(serde_json::json!({ "packages": packages, "resolve": { "nodes": nodes } })).unwrap()
    }

    #[test]
    fn what_is_banned_may_come_by_way_of_its_wrappers_alone() {
        let rules: Rules = toml::from_str(
            "[licenses]\nallow = ['MIT']\n[bans]\ndeny = [{ crate = 'bad', reason = 'because', wrappers = ['good'] }]\n",
        )
        .unwrap();
        let breaches_with = |user: &str| {
            let packages = ["good", "other", "bad"].map(|name| {
                serde_json::json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT", "source": null, "dependencies": [] })
            });
            let nodes = ["good", "other", "bad"].map(|name| {
                let needs: &[&str] = if name == user { &["bad"] } else { &[] };
                serde_json::json!({ "id": name, "dependencies": needs })
            });
            let metadata = serde_json::json!({ "packages": packages, "resolve": { "nodes": nodes } });
            breaches(&rules, &serde_json::from_value(metadata).unwrap()).len()
        };
        assert_eq!((breaches_with("good"), breaches_with("other"), breaches_with("nobody")), (0, 1, 1));
    }

    #[test]
    fn each_kind_of_breach_is_named() {
        let rules: Rules = toml::from_str(
            "[licenses]\nallow = ['MIT']\n[bans]\ndeny = [{ crate = 'bad', reason = 'because' }]\n\
             skip = [{ crate = 'two@1', reason = 'moving' }]\n",
        )
        .unwrap();
        let package = |name: &str, version: &str, license: &str, source: &str| {
            format!(
                r#"{{"id":"{name}{version}","name":"{name}","version":"{version}","license":"{license}","source":"{source}","dependencies":[]}}"#
            )
        };
        let index = "registry+https://index.example/default";
        let other = "registry+https://index.example/other";
        let member = r#"{"id":"us","name":"us","version":"0.1.0","license":"MIT","source":null,"dependencies":[
            {"name":"good","req":"^1","path":null,"source":"registry+https://index.example/default","registry":null},
            {"name":"any","req":"*","path":null,"source":"registry+https://index.example/default","registry":null}]}"#;
        let all = [
            member.to_owned(),
            package("good", "1.0.0", "MIT", index),
            package("left", "1.0.0", "GPL-3.0", index),
            package("bad", "1.0.0", "MIT", index),
            package("elsewhere", "1.0.0", "MIT", other),
            package("git", "1.0.0", "MIT", "git+https://git.example/x"),
            package("two", "1.4.0", "MIT", index),
            package("two", "2.0.0", "MIT", index),
            package("three", "1.0.0", "MIT", index),
            package("three", "2.0.0", "MIT", index),
        ];
        let found = breaches(&rules, &metadata(&format!("[{}]", all.join(","))));
        assert_eq!(found.len(), 6, "{found:?}");
        for (breach, name) in found.iter().zip(["us", "left", "bad", "elsewhere", "git", "three"]) {
            assert!(breach.starts_with(name), "{breach}");
        }
    }
}
