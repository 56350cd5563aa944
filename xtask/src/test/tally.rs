//! The count of what passed and what failed, and the names of the latter.

/// The result of a run so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// How many tests and checks passed.
    pub(crate) passed: usize,
    /// How many were left out by their own authors.
    pub(crate) ignored: usize,
    /// What failed, with a word on why where there is one.
    pub(crate) failures: Vec<String>,
    /// What failed tests printed.
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

    /// Prints what failed tests had to say, the names of all that failed, then the last line of a run.
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
