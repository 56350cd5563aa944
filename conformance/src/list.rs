//! The list of modules (`cpython.toml`): which are run, which cases differ and why, and which modules are left out and
//! why.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The list, as this program was built with it.
const CPYTHON: &str = include_str!("../cpython.toml");

/// Patterns of case names with a reason for each, by module. `*` stands for any text.
type Reasons = BTreeMap<String, BTreeMap<String, String>>;

/// The content of the list.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Modules of the package `test` that are run.
    pub modules: Vec<String>,
    /// Some of these modules, which are fast and together touch everything a sandbox is made of.
    pub quick: Vec<String>,
    /// Cases that may differ between the two sides, and why.
    #[serde(default)]
    pub differs: Reasons,
    /// Cases that neither side runs, and why.
    #[serde(default)]
    pub unrun: Reasons,
    /// Modules that are not run, and why.
    #[serde(default)]
    pub left_out: BTreeMap<String, String>,
}

impl List {
    /// Reads the list.
    ///
    /// # Errors
    /// The list contradicts itself: it has a module twice, or a reason for a module that isn't in it.
    pub fn read() -> Result<Self> {
        let list: Self = toml::from_str(CPYTHON).context("read cpython.toml")?;
        let all: BTreeSet<_> = list.modules.iter().collect();
        ensure!(all.len() == list.modules.len(), "cpython.toml names a module twice");
        for module in list.quick.iter().chain(list.differs.keys()).chain(list.unrun.keys()) {
            ensure!(all.contains(module), "cpython.toml has no module {module}");
        }
        for module in list.left_out.keys() {
            ensure!(!all.contains(module), "cpython.toml both runs {module} and leaves it out");
        }
        Ok(list)
    }

    /// Patterns of the cases of a module that neither side runs.
    pub fn skip(&self, module: &str) -> Vec<&str> {
        self.unrun.get(module).map(|cases| cases.keys().map(String::as_str).collect()).unwrap_or_default()
    }
}

/// Whether a case's name matches a pattern, in which `*` stands for any text.
pub fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => {
            let Some(left) = name.strip_prefix(start) else { return false };
            left.char_indices().map(|(at, _)| at).chain([left.len()]).any(|at| fits(rest, &left[at..]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_the_tree_can_be_read() {
        let list = List::read().unwrap();
        assert!(list.modules.len() > 100, "{} modules", list.modules.len());
    }

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, name, want) in [
            ("A.test_x", "A.test_x", true),
            ("A.test_x", "A.test_xy", false),
            ("A.*", "A.test_x", true),
            ("*.test_x", "B.test_x", true),
            ("A*x", "A.test_x", true),
            ("A*y", "A.test_x", false),
            ("*", "", true),
        ] {
            assert_eq!(fits(pattern, name), want, "{pattern} {name}");
        }
    }
}
