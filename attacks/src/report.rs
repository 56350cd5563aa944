//! The result of an attack on one backend.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How one attack went on one backend or in another place.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// `<group>/<name>` of the attack.
    pub attack: String,
    /// The backend or other place where it was tried.
    pub backend: String,
    /// Whether the attack held; if it didn't, why.
    pub verdict: Verdict,
    /// What its control showed, in words.
    pub control: String,
    /// How long the attack took, in seconds.
    pub seconds: f64,
}

/// Whether an attack held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It was tried, and everything that was found is what the guard gives.
    Held,
    /// It did not hold, for these reasons.
    NotHeld(Vec<String>),
    /// It was not run there, for this reason.
    Skipped(String),
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attack, backend, verdict, control, seconds } = self;
        match verdict {
            Verdict::Held => write!(f, "held      {backend:<12} {attack} ({seconds:.2} s; {control})"),
            Verdict::Skipped(why) => write!(f, "not run   {backend:<12} {attack}: {why}"),
            Verdict::NotHeld(problems) => {
                write!(f, "NOT HELD  {backend:<12} {attack} ({control})")?;
                problems.iter().try_for_each(|problem| write!(f, "\n            {problem}"))
            }
        }
    }
}

/// How many attacks were tried, and how many of them held everywhere. Each counts once, on any number of backends.
pub fn tally(reports: &[Report]) -> (usize, usize) {
    let run = reports.iter().filter(|r| !matches!(r.verdict, Verdict::Skipped(_)));
    let mut tried: Vec<&str> = run.clone().map(|r| r.attack.as_str()).collect();
    tried.sort_unstable();
    tried.dedup();
    let lost = |name: &&str| run.clone().any(|r| r.attack == *name && r.verdict != Verdict::Held);
    (tried.len(), tried.iter().filter(|name| !lost(name)).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attack_counts_once_and_holds_only_where_it_holds_everywhere() {
        let report = |attack: &str, backend: &str, verdict| Report {
            attack: attack.into(),
            backend: backend.into(),
            verdict,
            control: String::new(),
            seconds: 0.0,
        };
        let reports = [
            report("a", "native", Verdict::Held),
            report("a", "docker", Verdict::NotHeld(vec![])),
            report("b", "native", Verdict::Held),
            report("b", "docker", Verdict::Skipped(String::new())),
            report("c", "native", Verdict::Skipped(String::new())),
        ];
        assert_eq!(tally(&reports), (2, 1));
    }
}
