//! Scenarios: which jobs arrive, and how fast. They are files in `loadtests/scenarios`.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::cases::Case;

/// A scenario, as its file has it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What the scenario shows.
    pub about: String,
    /// Jobs per second, on average. Arrivals are random (Poisson), and never wait for answers.
    pub rate: f64,
    /// How long jobs arrive, in seconds.
    pub seconds: f64,
    /// How long an answer may take before it counts as missing, in seconds; 30 by default.
    #[serde(default = "patience")]
    pub patience: f64,
    /// Seed of the arrivals and of the mix. Two runs with the same seed send the same jobs.
    #[serde(default)]
    pub seed: u64,
    /// The kinds of jobs, with their shares.
    pub jobs: Vec<Share>,
}

/// One kind of job in a mix.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// The case that these jobs are.
    pub case: Case,
    /// How many of the jobs are of this kind, relative to the other kinds.
    pub weight: f64,
    /// For sessions: the number of sessions that the jobs are spread over; 4 by default.
    #[serde(default = "sessions")]
    pub sessions: u32,
}

fn patience() -> f64 {
    30.0
}

fn sessions() -> u32 {
    4
}

impl Scenario {
    /// Reads and checks a scenario's file.
    pub fn read(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        let scenario: Self = toml::from_str(&text).with_context(|| format!("in {}", file.display()))?;
        if !(scenario.rate > 0.0 && scenario.seconds > 0.0 && scenario.patience > 0.0) {
            bail!("{}: rate, seconds and patience must be above 0", file.display());
        }
        if scenario.jobs.is_empty() || scenario.jobs.iter().any(|share| !(share.weight > 0.0 && share.sessions > 0)) {
            bail!("{}: at least one job, and weights and sessions above 0", file.display());
        }
        Ok(scenario)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scenarios_that_come_along_are_valid() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(files.len() >= 2);
        files.iter().for_each(|file| drop(Scenario::read(file).unwrap()));
    }
}
