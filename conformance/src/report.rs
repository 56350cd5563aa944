//! The report for people: a line for each module, every difference, and a summary.

use std::fmt;

use crate::How;
use crate::compare::{Compared, Difference, Judged};

/// Lines of a difference's message that are shown, counted from its end.
const LINES: usize = 12;

/// Most characters of a standard error that are kept.
const KEPT: usize = 4000;

/// The judged comparison of one module.
#[derive(Debug)]
pub struct Module {
    /// Name of the module.
    pub name: String,
    /// The compared cases.
    pub compared: Compared,
    /// The differences, judged by the list.
    pub judged: Judged,
    /// Cases that differed in the first run, and not in the second.
    pub unsteady: Vec<Difference>,
    /// How long the module took inside and outside, in milliseconds.
    pub took_ms: (u64, u64),
}

/// The last part of a text.
pub fn tail(text: &str) -> String {
    let skip = text.chars().count().saturating_sub(KEPT);
    text.chars().skip(skip).collect()
}

/// Prints one module: how many cases went the same, and each one that didn't.
pub fn print(module: &Module) {
    let (inside, outside) = module.took_ms;
    println!(
        "{}: {} cases, {} the same, {} explained, {} differ (inside {:.1} s, outside {:.1} s)",
        module.name,
        module.compared.cases,
        module.compared.same,
        module.judged.explained.len(),
        module.judged.unexplained.len(),
        inside as f64 / 1000.0,
        outside as f64 / 1000.0,
    );
    for difference in &module.judged.unexplained {
        println!("  DIFFERS {}", line(difference));
        let lines: Vec<_> = difference.why.lines().collect();
        for text in &lines[lines.len().saturating_sub(LINES)..] {
            println!("      {text}");
        }
    }
    for difference in &module.unsteady {
        println!("  unsteady: {} the first time, alike the second", line(difference));
    }
    for pattern in &module.judged.stale {
        println!("  stale: cpython.toml explains {pattern}, which does not differ");
    }
}

fn line(difference: &Difference) -> String {
    let word = |how: Option<How>| how.map_or("missing".to_owned(), |how| how.to_string());
    format!("{}: {} inside, {} outside", difference.case, word(difference.inside), word(difference.outside))
}

/// Sums over all modules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of modules.
    pub modules: usize,
    /// Number of test cases that occur on either side.
    pub cases: usize,
    /// Cases that went the same.
    pub same: usize,
    /// Cases that differ, with an explanation.
    pub explained: usize,
    /// Cases that differ without an explanation.
    pub differ: usize,
    /// Cases that differed in the first run, and not in the second.
    pub unsteady: usize,
    /// Explanations that are no longer needed.
    pub stale: usize,
    /// How long everything took, in seconds.
    pub seconds: u64,
}

impl Summary {
    /// Adds one module.
    pub fn add(&mut self, module: &Module) {
        self.modules += 1;
        self.cases += module.compared.cases;
        self.same += module.compared.same;
        self.explained += module.judged.explained.len();
        self.differ += module.judged.unexplained.len();
        self.unsteady += module.unsteady.len();
        self.stale += module.judged.stale.len();
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} modules, {} test cases: {} the same, {} explained, {} differ",
            self.modules, self.cases, self.same, self.explained, self.differ
        )?;
        write!(f, " ({} unsteady, {} stale reasons, {} s)", self.unsteady, self.stale, self.seconds)
    }
}
