//! Reads the output of `cargo test` line by line, and counts.

use std::collections::VecDeque;

use super::tally::Tally;

/// How many lines of a failed test's output, up to its panic, are repeated at the end of a run, where people look
/// first.
const WORDS: usize = 60;

/// How many of these are the first lines, where many failures say what is wrong. The others are the last ones.
const FIRST: usize = 10;

/// Longest such line, in characters.
const WIDTH: usize = 400;

/// Follows the output of one `cargo test` and sums it up.
#[derive(Debug, Default)]
pub(crate) struct Libtest {
    target: String,
    failed_here: Vec<String>,
    /// Whether a test program has said how many tests it has, but not yet how they went.
    open: bool,
    /// The first and the last lines of a failed test's output, while they are being read.
    words: Option<VecDeque<String>>,
    tally: Tally,
}

impl Libtest {
    /// Follows a test program that was started without cargo, which would have said its name.
    pub(crate) fn of(target: &str) -> Self {
        Self { target: target.to_owned(), ..Self::default() }
    }

    /// Takes one line of output. Gives a line to show, if this one matters to people.
    pub(crate) fn line(&mut self, line: &str) -> Option<String> {
        let text = line.trim();
        if let Some(target) = text.strip_prefix("Running ").or_else(|| text.strip_prefix("Doc-tests ")) {
            self.close();
            self.target = short_target(target);
            return None;
        }
        if text.starts_with("running ") && (text.ends_with(" tests") || text.ends_with(" test")) {
            self.close();
            self.open = true;
            return None;
        }
        // libtest writes `---- name stdout ----`, and libtest-mimic `---- name ----`.
        if text.starts_with("---- ") && text.ends_with(" ----") {
            self.heard();
            self.tally.words.push(format!("{}: {text}", self.target));
            self.words = Some(VecDeque::new());
            return None;
        }
        if matches!(text, "failures:" | "stack backtrace:") || text.starts_with("test result: ") {
            self.heard();
        }
        if let Some(words) = self.words.as_mut().filter(|_| !text.is_empty()) {
            words.push_back(line.chars().take(WIDTH).collect());
            if words.len() > WORDS {
                words.remove(FIRST);
            }
        }
        if let Some(result) = text.strip_prefix("test result: ") {
            self.result(result);
            return None;
        }
        let name = text.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
        self.failed_here.push(name.to_owned());
        Some(format!("FAILED {}: {name}", self.target))
    }

    /// The sum. Call it after the last line.
    pub(crate) fn finish(mut self) -> Tally {
        self.heard();
        self.close();
        self.tally
    }

    fn heard(&mut self) {
        self.tally.words.extend(self.words.take().into_iter().flatten());
    }

    fn result(&mut self, result: &str) {
        let count = |what: &str| -> usize {
            let number = result.split(['.', ';']).find_map(|part| part.trim().strip_suffix(what)?.trim().parse().ok());
            number.unwrap_or(0)
        };
        let (passed, failed, ignored) = (count("passed"), count("failed"), count("ignored"));
        self.open = false;
        self.tally.passed += passed;
        self.tally.ignored += ignored;
        let target = self.target.clone();
        let mut names: Vec<String> = self.failed_here.drain(..).map(|name| format!("{target}: {name}")).collect();
        // A test's own output may break the line with its name. The number still counts.
        while names.len() < failed {
            names.push(format!("{target}: a test whose name was not printed on a line of its own"));
        }
        self.tally.failures.extend(names);
    }

    /// A test program that died prints no result. This counts as a failure, whatever had passed before.
    fn close(&mut self) {
        if self.open {
            self.open = false;
            let target = self.target.clone();
            let named = self.failed_here.drain(..).map(|name| format!("{target}: {name}"));
            self.tally.failures.extend(named);
            self.tally.failures.push(format!("{target}: the test program ended without a result"));
        }
    }
}

/// `unittests src/lib.rs (target/release/deps/thermae_client-0f…)` → `thermae_client (src/lib.rs)`.
fn short_target(target: &str) -> String {
    let Some((what, program)) = target.split_once(" (") else { return format!("doc-tests {target}") };
    let program = program.trim_end_matches(')').rsplit('/').next().unwrap_or(program);
    let name = program.rsplit_once('-').map_or(program, |(name, _)| name);
    let file = what.trim_start_matches("unittests ");
    format!("{name} ({file})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(text: &str) -> Tally {
        let mut reader = Libtest::default();
        for line in text.lines() {
            reader.line(line);
        }
        reader.finish()
    }

    #[test]
    fn results_are_summed_over_programs() {
        let tally = sum("     Running unittests src/lib.rs (target/release/deps/thermae_client-0f12)\n\n\
             running 2 tests\ntest a ... ok\ntest b::c ... FAILED\n\n\
             test result: FAILED. 1 passed; 1 failed; 3 ignored; 0 measured; 0 filtered out; finished in 0.10s\n\
                Doc-tests thermae_client\n\nrunning 1 test\ntest x ... ok\n\n\
             test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n");
        assert_eq!((tally.passed, tally.ignored), (2, 3));
        assert_eq!(tally.failures, ["thermae_client (src/lib.rs): b::c"]);
    }

    #[test]
    fn what_a_failed_test_printed_is_kept() {
        let tally = sum(
            "     Running tests/e2e.rs (target/release/deps/e2e-0f12)\nrunning 1 test\ntest a ... FAILED\n\nfailures:\n\n\
             ---- a stdout ----\nassertion failed\n  left: 1\nstack backtrace:\n   0: main\n\n\nfailures:\n    a\n\n\
             test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured\n",
        );
        assert_eq!(tally.words, ["e2e (tests/e2e.rs): ---- a stdout ----", "assertion failed", "  left: 1"]);
        assert_eq!(tally.failures, ["e2e (tests/e2e.rs): a"]);
    }

    #[test]
    fn the_beginning_and_the_end_of_a_long_output_are_kept() {
        let lines: Vec<String> = (0..200).map(|n| format!("line {n}")).collect();
        let tally = sum(&format!("running 1 test\n\nfailures:\n\n---- a::b ----\n{}\n", lines.join("\n")));
        assert_eq!(tally.words.len(), 1 + WORDS);
        assert_eq!((tally.words[1].as_str(), tally.words[WORDS].as_str()), ("line 0", "line 199"));
    }

    #[test]
    fn a_program_that_dies_is_a_failure() {
        let tally = sum("     Running tests/e2e.rs (target/release/deps/e2e-0f12)\nrunning 2 tests\ntest a ... ok\n\
             error: test failed, to rerun pass `-p thermae --test e2e`\n");
        assert_eq!(tally.failures, ["e2e (tests/e2e.rs): the test program ended without a result"]);
    }

    #[test]
    fn a_broken_line_still_counts() {
        let tally = sum("     Running tests/e2e.rs (target/release/deps/e2e-0f12)\nrunning 1 test\n\
             test a ... noise\nFAILED\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured\n");
        assert_eq!(tally.failures.len(), 1);
    }
}
