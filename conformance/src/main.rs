//! `thermae-conformance`: CPython's own tests in sandboxes and outside; the exit status is 1 where a case went otherwise.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use thermae_conformance::run;

/// CPython's own tests in sandboxes, and the same outside.
#[derive(Debug, Parser)]
#[command(name = "thermae-conformance", version)]
struct Args {
    #[command(flatten)]
    options: run::Options,
}

fn main() -> Result<ExitCode> {
    // The embedded fleet's containers start this program again as their runner.
    if let Some(code) = thermae::runner_entry() {
        return Ok(code);
    }
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let summary = runtime.block_on(run::run(&args.options))?;
    println!("{summary}");
    Ok(if summary.differ == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
