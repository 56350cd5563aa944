//! Reads the output of pytest line by line, and counts.

use super::tally::Tally;

/// Follows the output of one pytest run and sums it up.
#[derive(Debug, Default)]
pub(crate) struct Pytest {
    ended: bool,
    tally: Tally,
}

impl Pytest {
    /// Takes one line of output. Gives a line to show, if this one matters to people.
    pub(crate) fn line(&mut self, line: &str) -> Option<String> {
        for kind in ["FAILED ", "ERROR "] {
            if let Some(name) = line.strip_prefix(kind).filter(|name| name.contains(".py")) {
                self.tally.failures.push(format!("python: {name}"));
                return Some(line.to_owned());
            }
        }
        // How many tests run, and why the others don't.
        if line.starts_with("over HTTP: ") || line.starts_with("not over HTTP: ") {
            return Some(line.to_owned());
        }
        let (counts, _) = line.trim_matches(['=', ' ']).rsplit_once(" in ")?;
        let counts: Option<Vec<(usize, &str)>> = counts
            .split(", ")
            .map(|part| part.split_once(' ').and_then(|(count, what)| Some((count.parse().ok()?, what))))
            .collect();
        for (count, what) in counts? {
            match what {
                "passed" => self.tally.passed += count,
                "skipped" | "xfailed" => self.tally.ignored += count,
                _ => {}
            }
        }
        self.ended = true;
        Some(line.to_owned())
    }

    /// The sum. Call it after the last line.
    pub(crate) fn finish(mut self) -> Tally {
        if !self.ended {
            self.tally.failures.push("python: pytest ended without a result".to_owned());
        }
        self.tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(text: &str) -> Tally {
        let mut reader = Pytest::default();
        for line in text.lines() {
            reader.line(line);
        }
        reader.finish()
    }

    #[test]
    fn tests_are_counted_and_failures_named() {
        let tally = sum("..F.s [100%]\nFAILED to open the door\nthe code took 3 in all\n\
             FAILED tests/unit/test_a.py::test_b[x] - AssertionError: no\nERROR tests/unit/test_c.py::test_d\n\
             1 failed, 160 passed, 1 skipped, 1 error in 45.88s\n");
        assert_eq!((tally.passed, tally.ignored), (160, 1));
        assert_eq!(
            tally.failures,
            ["python: tests/unit/test_a.py::test_b[x] - AssertionError: no", "python: tests/unit/test_c.py::test_d"]
        );
        assert_eq!(sum("=== 2 passed in 61.88s (0:01:01) ===\n").passed, 2);
    }

    #[test]
    fn what_does_not_run_is_shown_with_its_reason() {
        for line in ["over HTTP: 3 run", "not over HTTP: 2: they end the fleet"] {
            assert_eq!(Pytest::default().line(line).as_deref(), Some(line));
        }
    }

    #[test]
    fn a_run_that_dies_is_a_failure() {
        assert_eq!(sum("....\nSegmentation fault\n").failures, ["python: pytest ended without a result"]);
    }
}
