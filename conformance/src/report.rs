//! What people read: a line a module, every difference, the sum.

use std::fmt;

use crate::How;
use crate::compare::Difference;
use crate::run::Module;

/// Lines of a difference's reason that are shown.
const LINES: usize = 12;

/// Most characters of a standard error that are kept.
const KEPT: usize = 4000;

/// The last part of a text.
pub fn tail(text: &str) -> String {
    let skip = text.chars().count().saturating_sub(KEPT);
    text.chars().skip(skip).collect()
}

/// One module: how many cases went alike, and each that did not.
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

/// The sum over modules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Modules.
    pub modules: usize,
    /// Test cases that either side knows.
    pub cases: usize,
    /// Alike.
    pub same: usize,
    /// Not alike, with a reason.
    pub explained: usize,
    /// Not alike.
    pub differ: usize,
    /// Not alike the first time, alike the second.
    pub unsteady: usize,
    /// Reasons for what is alike.
    pub stale: usize,
    /// How long it all took.
    pub seconds: u64,
}

impl Summary {
    /// Counts one module in.
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
