//! `thermae-loadtests`: load on a fleet, and what it answers.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use thermae_loadtests::cases::Case;
use thermae_loadtests::{closed, open, report, scenario::Scenario, target};

/// Load on a fleet, and what it answers.
#[derive(Debug, Parser)]
#[command(name = "thermae-loadtests", version)]
struct Args {
    #[command(flatten)]
    target: target::Options,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Percentiles with one job in flight, rates with several.
    Closed {
        /// What to measure.
        #[arg(long = "case", required = true)]
        cases: Vec<Case>,
        #[command(flatten)]
        options: closed::Options,
    },
    /// A scenario of `loadtests/scenarios`: jobs arrive at their own pace. Exit status 1 where an answer is missing or wrong.
    Open {
        /// The scenario's file.
        scenario: PathBuf,
        /// Jobs a second, in place of the scenario's own.
        #[arg(long)]
        rate: Option<f64>,
        /// Seconds, in place of the scenario's own.
        #[arg(long)]
        seconds: Option<f64>,
    },
}

fn main() -> Result<ExitCode> {
    // The embedded fleet's containers start this program again as their runner.
    if let Some(code) = thermae::runner_entry() {
        return Ok(code);
    }
    let args = Args::parse();
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run(args))
}

async fn run(args: Args) -> Result<ExitCode> {
    let target = args.target.open().await?;
    let client = &target.client;
    let mut clean = true;
    match args.what {
        What::Closed { cases, options } => {
            let mut rows = Vec::new();
            for case in cases {
                rows.push(closed::measure(client, args.target.name(), case, options).await?);
            }
            if args.json { println!("{}", serde_json::to_string(&rows)?) } else { print!("{}", report::table(&rows)) }
        }
        What::Open { scenario: file, rate, seconds } => {
            let mut scenario = Scenario::read(&file)?;
            scenario.rate = rate.unwrap_or(scenario.rate);
            scenario.seconds = seconds.unwrap_or(scenario.seconds);
            let name = file.file_stem().unwrap_or_default().to_string_lossy();
            let report = open::run(client, &name, &scenario).await?;
            if args.json { println!("{}", serde_json::to_string(&report)?) } else { print!("{report}") }
            clean = report.is_clean();
        }
    }
    target.close().await;
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
