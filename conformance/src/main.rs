//! `thermae-conformance`: runs CPython's own tests in sandboxes and outside, and compares them. The exit status is 1 if
//! a case differs without an explanation.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use thermae_conformance::run;

/// Run CPython's own tests in sandboxes and outside, and compare how each test case went.
///
/// The exit status is 1 if a case differs without an explanation in `cpython.toml`.
#[derive(Debug, Parser)]
#[command(name = "thermae-conformance", version)]
struct Args {
    #[command(flatten)]
    options: run::Options,
}

fn main() -> Result<ExitCode> {
    // The embedded fleet's containers start this program again as their runner.
    if let Some(code) = thermae_fleet::runner_entry() {
        return Ok(code);
    }
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let summary = runtime.block_on(run::run(&args.options))?;
    println!("{summary}");
    Ok(if summary.differ == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
