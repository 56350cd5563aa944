//! `cargo xtask full`: in its long form, all that `cargo xtask test` tries in a short one, and the measurements. Its last
//! line is `N passed, N failed`.

use std::{
    path::PathBuf,
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use crate::{paths, supervise, test, test::Tally};

/// Longer than any of them takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(6 * 3600);

/// What to compare with.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Another checkout, for `pairs`. Without it, nothing is compared.
    #[arg(long)]
    before: Option<PathBuf>,
}

/// Runs one after the other, because each takes the whole machine. The exit status is 1 if one failed.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    supervise::begin()?;
    let program = paths::this_program().context("this program has no path")?;
    let (mut tally, mut results) = (Tally::default(), Vec::new());
    for name in ["attack", "soak", "cpython", "openapi", "pairs", "bench"] {
        let mut command = Command::new(&program);
        command.arg(name);
        match (name, &options.before) {
            ("pairs", Some(before)) => drop(command.arg("--before").arg(before)),
            ("pairs", None) => {
                results.push("== pairs: not run: `--before` names no checkout".to_owned());
                continue;
            }
            _ => {}
        }
        println!("== {name}");
        let begun = Instant::now();
        let finished = supervise::run(command, &test::log(&format!("full-{name}")), LIMIT, |line| println!("{line}"))?;
        let failure = finished.failure.map(|why| format!("{why}; see {}", finished.log.display()));
        let how = if failure.is_none() { "ok" } else { "FAILED" };
        results.push(format!("== {name}: {how} ({:.0} s)", begun.elapsed().as_secs_f64()));
        tally.check(name, failure.as_deref());
        if supervise::interrupted() {
            break;
        }
    }
    results.iter().for_each(|result| println!("{result}"));
    tally.print();
    Ok(if tally.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
