//! `cargo xtask fuzz`: runs the tests called `hostile` in rounds, with many more cases than usual, until the time is
//! over.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::{cargo, paths, supervise, supervise::Finished, test};

/// Crates that parse input from jobs or clients.
const CRATES: [&str; 10] = [
    "thermae-schemas",
    "thermae-service",
    "thermae-backplane",
    "thermae-redis",
    "thermae-scheduler",
    "thermae-runner",
    "thermae-worker",
    "thermae-bridge",
    "thermae-gateway",
    "thermae",
];

/// Longer than a round takes.
const ROUND: Duration = Duration::from_secs(3600);

/// How long.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Options {
    /// Time after which no new round begins, in seconds.
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Number of cases of each property in a round.
    #[arg(long, default_value_t = 2048)]
    cases: u32,
}

/// Runs rounds over all crates. The exit status is 1 if a test failed. `proptest` then writes the input that failed to
/// `proptest-regressions`; commit that file.
pub(crate) fn run(options: Options) -> Result<ExitCode> {
    supervise::begin()?;
    let begun = Instant::now();
    let (mut rounds, mut tests, mut failures) = (0u32, 0, Vec::new());
    while rounds == 0 || begun.elapsed() < Duration::from_secs(options.seconds) {
        let mut command = cargo::command(&["test", "--no-fail-fast", "--lib", "--test", "hostile"]);
        command.args(CRATES.iter().flat_map(|name| ["--package", *name])).arg("hostile");
        command.env("PROPTEST_CASES", options.cases.to_string());
        let mut reader = test::Libtest::default();
        let log = paths::root().join("target/test-logs/fuzz.log");
        let Finished { failure, log } = supervise::run(command, &log, ROUND, |line| {
            if let Some(line) = reader.line(line) {
                println!("   {line}");
            }
        })?;
        let summed = reader.finish();
        tests += summed.passed;
        failures.extend(summed.failures);
        failures.extend(failure.map(|why| format!("{why}; see {}", log.display())));
        ensure!(!supervise::interrupted(), "interrupted");
        rounds += 1;
        println!("round {rounds}: {tests} tests passed so far, {} s", begun.elapsed().as_secs());
        if !failures.is_empty() {
            break;
        }
    }
    failures.iter().for_each(|failure| println!("FAILED {failure}"));
    println!("{rounds} rounds of {} cases a property: {tests} passed, {} failed", options.cases, failures.len());
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
