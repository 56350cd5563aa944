//! `thermae-loadtests`: load on a fleet, and what it answers.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use thermae_loadtests::cases::Case;
use thermae_loadtests::cpu::Part;
use thermae_loadtests::{
    baseline::Baseline, closed, first, floor, hostile, open, phases::Snapshot, report, rpc, scenario::Scenario, soak,
    start, target, tenants,
};
use thermae_service::telemetry;

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
        /// Parts of the fleet whose processor time is told: NAME=PID, or NAME=@TEXT for processes by their command
        /// line; each with all that it started. The embedded fleet is one: this process.
        #[arg(long = "cpu")]
        parts: Vec<Part>,
    },
    /// What people use without a fleet, one way of it: percentiles one at a time, rates with four.
    Baseline {
        /// Which way.
        #[arg(long)]
        on: On,
        /// What to measure.
        #[arg(long = "case", required = true)]
        cases: Vec<Case>,
        /// Python of `subprocess`.
        #[arg(long, default_value = "python3")]
        python: PathBuf,
        /// Docker's socket.
        #[arg(long, default_value = "/var/run/docker.sock")]
        docker: String,
        /// Image of `docker-run`, container of `docker-exec`.
        #[arg(long, default_value = "")]
        of: String,
        /// Runs that are timed.
        #[arg(long, default_value_t = 100)]
        samples: u32,
        /// How long the rate is taken, in seconds.
        #[arg(long, default_value_t = 10)]
        seconds: u64,
    },
    /// What can't be had for less: the embedded fleet's sandboxes without any worker, and a bare fork into their namespaces.
    /// Percentiles with one in flight, paced so that a sandbox made ahead is ready; rates with several.
    Floor {
        /// What to measure; all where none is named.
        #[arg(long = "case")]
        cases: Vec<floor::Floor>,
        #[command(flatten)]
        options: closed::Options,
    },
    /// From the start of a process to its first result: `thermae run`, with an embedded fleet of its own.
    Start {
        /// The program, by default the one beside this.
        #[arg(long)]
        program: Option<PathBuf>,
        /// Starts that are timed.
        #[arg(long, default_value_t = 30)]
        samples: u32,
    },
    /// What an idle container of the embedded fleet weighs, and a sandbox made ahead.
    Weight,
    /// A bare RabbitMQ request and reply.
    Rpc {
        /// Round trips that are timed.
        #[arg(long, default_value_t = 2000)]
        samples: u32,
    },
    /// Honest and hostile jobs, mixed. Exit status 1 where an answer is missing or wrong, or memory is not flat.
    Soak {
        #[command(flatten)]
        options: soak::Options,
    },
    /// One hostile tenant against another one, the victim: its jobs alone, beside a benign neighbour, beside the hostile one. Exit
    /// status 1 where one of its jobs is lost.
    Hostile {
        #[command(flatten)]
        options: hostile::Options,
    },
    /// A neighbour of `hostile`'s; prints what it did.
    Neighbour {
        /// Which.
        #[arg(long = "as")]
        who: hostile::Neighbour,
        /// For how long.
        #[arg(long)]
        seconds: f64,
        /// Groups of means to leave out.
        #[arg(long, value_delimiter = ',')]
        without: Vec<String>,
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
        /// Say where the embedded fleet's time went, by its own metrics.
        #[arg(long)]
        phases: bool,
    },
    /// The first jobs after readiness, sent at once, and the same later.
    First {
        #[command(flatten)]
        options: first::Options,
    },
    /// Jobs of many tenants in turn. With `--amqp`, its user must speak for every tenant.
    Tenants {
        #[command(flatten)]
        options: tenants::Options,
    },
}

/// Ways to run a program without a fleet.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum On {
    Subprocess,
    DockerRun,
    DockerExec,
}

fn main() -> Result<ExitCode> {
    // The embedded fleet's containers start this program again as their runner.
    if let Some(code) = thermae::runner_entry() {
        return Ok(code);
    }
    let args = Args::parse();
    let _log = telemetry::init(
        "thermae-loadtests",
        &telemetry::Options { log: "warn".into(), ..Default::default() },
        &Default::default(),
    )?;
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run(args))
}

async fn run(args: Args) -> Result<ExitCode> {
    let show = |rows: &[report::Row]| {
        let text = if args.json { serde_json::to_string(rows)? + "\n" } else { report::table(rows) };
        print!("{text}");
        anyhow::Ok(ExitCode::SUCCESS)
    };
    match &args.what {
        What::Baseline { on, cases, python, docker, of, samples, seconds } => {
            let rate = Duration::from_secs(*seconds);
            let baseline = match on {
                On::Subprocess => Baseline::subprocess(python, *samples, rate),
                On::DockerRun => Baseline::docker_run(docker, of, *samples, rate),
                On::DockerExec => Baseline::docker_exec(docker, of, *samples, rate),
            };
            return show(&cases.iter().map(|case| baseline.measure(*case)).collect::<Result<Vec<_>>>()?);
        }
        What::Floor { cases, options } => {
            return show(&floor::measure(args.target.python.clone(), cases, *options).await?);
        }
        What::Start { program, samples } => {
            let beside = || anyhow::Ok(std::env::current_exe()?.with_file_name("thermae"));
            let program = program.clone().map_or_else(beside, Ok)?;
            return show(&[start::measure(&program, args.target.python.as_ref(), *samples)?]);
        }
        What::Weight => {
            let weights = floor::weigh(args.target.python.clone()).await?;
            if args.json {
                println!("{}", serde_json::to_string(&weights)?);
            } else {
                weights.iter().for_each(|weight| println!("{:<24} {:>8.1} MiB", weight.what, weight.mib));
            }
            return Ok(ExitCode::SUCCESS);
        }
        What::Rpc { samples } => {
            let url = args.target.amqp.as_deref().context("--amqp is missing")?;
            return show(&[report::Row::new("rpc", "rabbitmq", &rpc::measure(url, *samples).await?, None)]);
        }
        What::First { options } => return show(&first::measure(&args.target, *options).await?),
        What::Neighbour { who, seconds, without } => {
            let url = args.target.amqp.as_deref().context("--amqp is missing")?;
            println!("{}", serde_json::to_string(&hostile::neighbour(*who, url, *seconds, without).await?)?);
            return Ok(ExitCode::SUCCESS);
        }
        What::Closed { .. } | What::Open { .. } | What::Soak { .. } | What::Tenants { .. } | What::Hostile { .. } => {}
    }
    let target = args.target.open().await?;
    let client = &target.client;
    let mut clean = true;
    match args.what {
        What::Closed { cases, options, mut parts } => {
            if args.target.amqp.is_none() {
                parts = vec![Part::this("embedded")];
            }
            let mut rows = Vec::new();
            for case in cases {
                rows.push(closed::measure(client, args.target.name(), case, options, &parts).await?);
            }
            show(&rows)?;
        }
        What::Tenants { options } => {
            target.ready().await;
            show(&tenants::measure(&target, args.target.name(), options).await?)?;
        }
        What::Open { scenario: file, rate, seconds, phases } => {
            let mut scenario = Scenario::read(&file)?;
            scenario.rate = rate.unwrap_or(scenario.rate);
            scenario.seconds = seconds.unwrap_or(scenario.seconds);
            let name = file.file_stem().unwrap_or_default().to_string_lossy();
            target.ready().await;
            let snapshot = || target.metrics().map(Snapshot::take).unwrap_or_default();
            let before = snapshot();
            let mut report = open::run(client, &name, &scenario).await?;
            if phases {
                report.phases = snapshot().since(&before);
            }
            if args.json {
                println!("{}", serde_json::to_string(&report)?)
            } else {
                print!("{report}")
            }
            clean = report.is_clean();
        }
        What::Soak { options } => {
            let report = soak::run(&target, &options).await?;
            if args.json {
                println!("{}", serde_json::to_string(&report)?)
            } else {
                println!("{report}")
            }
            clean = report.is_clean();
        }
        What::Hostile { options } => {
            let report = hostile::run(&target, &options).await?;
            if args.json {
                println!("{}", serde_json::to_string(&report)?)
            } else {
                println!("{report}")
            }
            clean = report.is_clean();
        }
        What::Baseline { .. }
        | What::First { .. }
        | What::Floor { .. }
        | What::Start { .. }
        | What::Weight
        | What::Rpc { .. }
        | What::Neighbour { .. } => {}
    }
    target.close().await;
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
