//! Counts what passed and what failed, and keeps the names of the failures.

/// The result of a run so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Number of tests and checks that passed.
    pub(crate) passed: usize,
    /// Number of tests marked `#[ignore]`.
    pub(crate) ignored: usize,
    /// Names of what failed, with the reason if it is known.
    pub(crate) failures: Vec<String>,
    /// Lines that failed tests printed.
    pub(crate) words: Vec<String>,
}

impl Tally {
    /// Counts one check.
    pub(crate) fn check(&mut self, name: &str, failure: Option<&str>) {
        match failure {
            None => self.passed += 1,
            Some(why) => self.failures.push(format!("{name}: {why}")),
        }
    }

    /// Adds what another one has counted.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.ignored += other.ignored;
        self.failures.extend(other.failures);
        self.words.extend(other.words);
    }

    /// Prints the output of failed tests, the names of all failures, and the last line of a run.
    pub(crate) fn print(&self) {
        if self.ignored > 0 {
            println!("{} ignored", self.ignored);
        }
        self.words.iter().for_each(|line| println!("{line}"));
        for failure in &self.failures {
            println!("FAILED {failure}");
        }
        println!("{} passed, {} failed", self.passed, self.failures.len());
    }
}
