//! The evidence of a job: what it tried, and what it found.

use std::collections::BTreeMap;

use serde_json::Value;
use thermae_schemas::{JsonText, MimeBundle, Outcome};

use crate::sheet::{ANY_NAME, Findings};

/// Observation that names the job's container. Only the suite uses it; sheets say nothing about it.
const CONTAINER: &str = "container";

/// Beginning of a line of output with observations, of a job that can't display anything.
pub const LINE: &str = "EVIDENCE ";

/// A job's observations, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evidence(BTreeMap<String, Value>);

impl Evidence {
    /// Collects the observations in a job's displays, in its value, and in the lines that begin with [`LINE`].
    pub fn of(outcome: &Outcome) -> Self {
        let mut all = Self::default();
        for line in outcome.stdout.lines().filter_map(|line| line.strip_prefix(LINE)) {
            all.0.extend(Self::parse(line).unwrap_or_default().0);
        }
        for bundle in outcome.displays.iter().chain(&outcome.value) {
            all.add(bundle);
        }
        all
    }

    fn add(&mut self, bundle: &MimeBundle) {
        if let Some(Ok(Value::Object(told))) = bundle.get("application/json").map(JsonText::read) {
            self.0.extend(told);
        }
    }

    /// Adds an observation.
    pub fn note(&mut self, name: &str, found: impl Into<Value>) {
        self.0.insert(name.to_owned(), found.into());
    }

    /// Parses a line of the file in which a control reports its observations.
    pub fn parse(line: &str) -> serde_json::Result<Self> {
        serde_json::from_str(line).map(Self)
    }

    /// The container that the job ran in; `None` if it didn't say.
    pub fn container(&self) -> Option<&Value> {
        self.0.get(CONTAINER)
    }

    /// The observation with this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys().filter(|name| *name != CONTAINER)
    }
}

/// Compares the evidence of all jobs with what must be found. Gives the problems. With `strict`, every observation must
/// be expected, and at least one must have been made.
pub fn compare(jobs: &[Evidence], wanted: &Findings, strict: bool) -> Vec<String> {
    let mut problems = Vec::new();
    let mut names: Vec<&String> = jobs.iter().flat_map(Evidence::names).collect();
    names.extend(wanted.keys().filter(|name| *name != ANY_NAME));
    names.sort();
    names.dedup();
    if strict && !jobs.iter().any(|job| job.names().next().is_some()) {
        problems.push("no evidence arrived".to_owned());
    }
    for name in names {
        let found: Vec<&Value> = jobs.iter().filter_map(|job| job.get(name)).collect();
        match wanted.get(name).or_else(|| wanted.get(ANY_NAME)) {
            Some(expected) if found.is_empty() && expected.may_miss() => {}
            _ if found.is_empty() => problems.push(format!("{name}: not tried")),
            // This architecture has never had the system call.
            Some(_) if found.iter().all(|v| *v == "no such call here") => {}
            Some(expected) => problems.extend(expected.check(&found).err().map(|why| format!("{name}: {why}"))),
            None if strict => problems.push(format!("{name}: nothing is said of what must be found")),
            None => {}
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(toml: &str) -> Findings {
        toml::from_str(toml).unwrap()
    }

    #[test]
    fn what_was_not_tried_has_not_held() {
        let evidence = |json: &str| [Evidence::parse(json).unwrap()];
        let wanted = findings("a = 'EPERM'");
        assert!(compare(&evidence(r#"{"a": "EPERM", "container": 1}"#), &wanted, true).is_empty());
        for bad in [r#"{"a": "worked"}"#, "{}", r#"{"a": "EPERM", "b": 1}"#] {
            assert!(!compare(&evidence(bad), &wanted, true).is_empty(), "{bad}");
        }
        assert!(compare(&evidence(r#"{"b": "EPERM"}"#), &findings("'*' = 'EPERM'"), true).is_empty());
        assert!(!compare(&evidence("{}"), &findings("'*' = 'EPERM'"), true).is_empty());
    }
}
