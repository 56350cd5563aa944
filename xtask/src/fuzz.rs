//! `cargo xtask fuzz`: the tests called `hostile`, with many more cases each, until the time is over.

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::{paths, supervise, supervise::Finished, test};

/// Crates that read what a job or a client controls, and where their tests are.
const CRATES: [(&str, &[&str]); 7] = [
    ("thermae-schemas", &["--lib"]),
    ("thermae-service", &["--lib"]),
    ("thermae-backplane", &["--lib"]),
    ("thermae-scheduler", &["--lib"]),
    ("thermae-runner", &["--lib", "--test", "hostile"]),
    ("thermae-worker", &["--lib"]),
    ("thermae", &["--lib"]),
];

/// Cases of each test in a round. A round of all takes some minutes.
const CASES: u32 = 2048;

/// Longest that one round of one crate may take.
const ROUND: Duration = Duration::from_secs(1800);

/// How long.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Options {
    /// No round begins later than this many seconds after the start.
    #[arg(long, default_value_t = 300)]
    seconds: u64,
}

/// Runs rounds over all crates; exit status 1 where a test failed. `proptest` keeps the input that did it in
/// `proptest-regressions`: it belongs into the tree.
pub(crate) fn run(options: Options) -> Result<ExitCode> {
    supervise::begin()?;
    let begun = Instant::now();
    let (mut rounds, mut tests, mut failures) = (0u32, 0, Vec::new());
    while rounds == 0 || begun.elapsed() < Duration::from_secs(options.seconds) {
        for (package, targets) in CRATES {
            let mut reader = test::Libtest::default();
            let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            command.args(["test", "--no-fail-fast", "--package", package]).args(targets).arg("hostile");
            command.current_dir(paths::root()).env("PROPTEST_CASES", CASES.to_string());
            let log = paths::root().join("target/test-logs").join(format!("fuzz-{package}.log"));
            let Finished { failure, log } = supervise::run(command, &log, ROUND, |line| {
                reader.line(line);
            })?;
            let summed = reader.finish();
            tests += summed.passed;
            failures.extend(summed.failures);
            if let Some(why) = failure {
                println!("{package}: {why}; see {}", log.display());
                failures.push(format!("{package}: {why}"));
            }
            ensure!(!supervise::interrupted(), "interrupted");
        }
        rounds += 1;
        println!("round {rounds}: {tests} tests passed so far, {} s", begun.elapsed().as_secs());
        if !failures.is_empty() {
            break;
        }
    }
    failures.iter().for_each(|failure| println!("FAILED {failure}"));
    println!("{rounds} rounds of {CASES} cases a property: {tests} passed, {} failed", failures.len());
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
