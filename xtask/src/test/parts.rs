//! Parts of a run that go on side by side: programs whose output is read, counted, and shown in one piece.

use std::{
    collections::VecDeque,
    fmt::Write as _,
    process::Command,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::Result;

use super::{
    libtest::Libtest,
    pytest::Pytest,
    steps::{Step, log},
    tally::Tally,
};
use crate::{
    services,
    supervise::{self, Finished},
};

/// How many parts run at once. Most of them wait for most of the time: for servers, for leases, for limits of time. Two
/// of them keep two cores busy, and leave each enough.
const AT_ONCE: usize = 2;

/// The parts that take longest, from a minute up. They begin first, so that none of them is left alone at the end.
const LONGEST: [&str; 12] = [
    "test/cli/tests/fleet/main.rs",
    "python",
    "python-over-http",
    "test/gateway/tests/gateway/main.rs",
    "python-3.12",
    "python-3.13",
    "test/runner/tests/waits.rs",
    "test/loadtests/tests/hostile.rs",
    "test/attacks/tests/attacks.rs",
    "test/worker/program/tests/fleet/main.rs",
    "test/backplane/tests/contract/main.rs",
    "newer/backplane/tests/contract/main.rs",
];

/// A program that is run, and its results counted.
pub(super) struct Part {
    /// The step that it is a part of.
    pub(super) step: Step,
    /// Its name, which its log has, too.
    pub(super) name: String,
    /// Makes its command. What the command needs is installed then.
    pub(super) command: Box<dyn FnOnce() -> Result<Command> + Send>,
    /// After this time it is ended.
    pub(super) limit: Duration,
    pub(super) reader: Reader,
}

/// How a part's output is read.
#[derive(Debug)]
pub(super) enum Reader {
    /// As that of a test program in Rust, or of `cargo test`.
    Libtest(Libtest),
    /// As that of pytest. If only `some` tests were asked for, there may be none.
    Pytest { reader: Pytest, some: bool },
    /// Not at all: the part passes or fails as a whole.
    Whole,
}

/// Runs the parts, some at once. Gives what each has counted. After an interrupt, none begins.
pub(super) fn side_by_side(mut parts: Vec<Part>) -> Vec<(Step, Tally)> {
    parts.sort_by_key(|part| LONGEST.iter().position(|name| *name == part.name).unwrap_or(LONGEST.len()));
    let queue = Mutex::new(VecDeque::from(parts));
    let next = || {
        let part = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        part.filter(|_| !supervise::interrupted())
    };
    let one_after_the_other = || std::iter::from_fn(next).map(|part| (part.step, part.run())).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(one_after_the_other)).collect();
        running.into_iter().flat_map(|lane| lane.join().expect("a part does not panic")).collect()
    })
}

impl Part {
    /// A part with a command that needs nothing.
    pub(super) fn new(step: Step, name: &str, command: Command, limit: Duration, reader: Reader) -> Self {
        Self { step, name: name.to_owned(), command: Box::new(|| Ok(command)), limit, reader }
    }

    /// Runs the program to its end, and prints what it has to say. A program that failed and names no failed test is a
    /// failure itself.
    fn run(self) -> Tally {
        let Self { name, command, limit, mut reader, .. } = self;
        let begun = Instant::now();
        let log = log(&name);
        let mut said = String::new();
        let mut on_line = |line: &str| {
            if let Some(line) = reader.line(line) {
                let _ = writeln!(said, "   {line}");
            }
        };
        let finished = command().and_then(|command| supervise::run(command, &log, limit, &mut on_line));
        let failure = match finished {
            Ok(Finished { failure, log }) => failure.map(|why| format!("{why}; see {}", log.display())),
            Err(error) => Some(format!("{error:#}")),
        };
        let whole = matches!(reader, Reader::Whole);
        let tally = reader.finish(&name, failure);
        let how = match (tally.passed, tally.failures.len()) {
            // A program without tests.
            (0, 0) => return tally,
            (_, 0) if whole => "ok".to_owned(),
            (_, _) if whole => "FAILED".to_owned(),
            (passed, failed) => format!("{passed} passed, {failed} failed"),
        };
        let mut shown = format!("== {name}: {how} ({:.1} s)\n{said}", begun.elapsed().as_secs_f64());
        if !tally.failures.is_empty() {
            let _ = writeln!(shown, "{}", services::tail(&log, 60));
        }
        print!("{shown}");
        tally
    }
}

impl Reader {
    /// Takes a line. Gives one to show.
    fn line(&mut self, line: &str) -> Option<String> {
        match self {
            Self::Libtest(reader) => reader.line(line),
            Self::Pytest { reader, .. } => reader.line(line),
            Self::Whole => None,
        }
    }

    /// What was counted. `failure` is why the program failed.
    fn finish(self, name: &str, failure: Option<String>) -> Tally {
        let (mut tally, may_be_empty) = match self {
            Self::Libtest(reader) => (reader.finish(), false),
            Self::Pytest { reader, some } => (reader.finish(), some),
            Self::Whole => {
                let mut tally = Tally::default();
                tally.check(name, failure.as_deref());
                return tally;
            }
        };
        // It is an error for pytest, but not here, if the tests that were asked for are elsewhere.
        let elsewhere = may_be_empty && tally.passed == 0;
        if let Some(why) = failure.filter(|_| tally.failures.is_empty() && !elsewhere) {
            tally.check(name, Some(&why));
        }
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(name: &str, script: &str, reader: Reader) -> Part {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let name = format!("of-a-test-{}-{name}", std::process::id());
        Part::new(Step::Test, &name, command, Duration::from_secs(60), reader)
    }

    fn run(parts: Vec<Part>) -> Tally {
        let logs: Vec<_> = parts.iter().map(|part| log(&part.name)).collect();
        let mut all = Tally::default();
        side_by_side(parts).into_iter().for_each(|(_, tally)| all.add(tally));
        logs.iter().for_each(|log| std::fs::remove_file(log).unwrap());
        all
    }

    #[test]
    fn parts_run_at_once_and_each_is_counted() {
        let dir = std::env::temp_dir().join(format!("thermae-parts-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        // Each waits for the other one.
        let meets = |me, other| format!("cd {}; touch {me}; until [ -e {other} ]; do sleep 0.01; done", dir.display());
        let result = "running 2 tests\ntest a ... FAILED\ntest result: FAILED. 1 passed; 1 failed; 0 ignored";
        let parts = vec![
            shell("a", &meets("a", "b"), Reader::Whole),
            shell("b", &format!("{}; echo '{result}'; exit 1", meets("b", "a")), Reader::Libtest(Libtest::of("x"))),
            shell("c", "exit 3", Reader::Whole),
        ];
        let tally = run(parts);
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(tally.passed, 2);
        let (mut named, mut other) = (tally.failures.clone(), Vec::new());
        named.retain(|failure| {
            failure == "x: a" || {
                other.push(failure.clone());
                false
            }
        });
        assert_eq!((named.len(), other.len()), (1, 1), "{:?}", tally.failures);
        assert!(other[0].contains("exit status: 3"), "{other:?}");
    }

    #[test]
    fn a_program_that_fails_and_names_no_test_is_a_failure() {
        let empty = |some| Reader::Pytest { reader: Pytest::default(), some };
        let deselected = "echo '5 deselected in 0.10s'; exit 5";
        assert_eq!(run(vec![shell("some", deselected, empty(true))]).failures, Vec::<String>::new());
        assert_eq!(run(vec![shell("all", deselected, empty(false))]).failures.len(), 1);
        let dies = "echo 'test result: ok. 3 passed; 0 failed; 0 ignored'; exit 1";
        let tally = run(vec![shell("dies", dies, Reader::Libtest(Libtest::of("x")))]);
        assert_eq!((tally.passed, tally.failures.len()), (3, 1));
    }
}
