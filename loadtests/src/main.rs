//! `thermae-loadtests`: puts load on a fleet, and measures how it answers.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use thermae_loadtests::cases::Case;
use thermae_loadtests::cpu::Part;
use thermae_loadtests::{
    baseline::Baseline, closed, first, floor, gateway, hostile, open, phases::Snapshot, report, rpc,
    scenario::Scenario, sdk, soak, start, target, tenants,
};
use thermae_service::telemetry;

/// Put load on a fleet, and measure how it answers.
#[derive(Debug, Parser)]
#[command(name = "thermae-loadtests", version)]
struct Args {
    #[command(flatten)]
    target: target::Options,
    /// Print the results as JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Measure percentiles with one job in flight, and rates with several.
    Closed {
        /// Case to measure. Can be repeated.
        #[arg(long = "case", required = true)]
        cases: Vec<Case>,
        #[command(flatten)]
        options: closed::Options,
        /// Part of the fleet whose processor time is measured: NAME=PID, or NAME=@TEXT. Can be repeated.
        ///
        /// NAME=@TEXT stands for all processes with TEXT in their command line. The processes that they started count,
        /// too. With the embedded fleet, this process is measured instead.
        #[arg(long = "cpu")]
        parts: Vec<Part>,
    },
    /// Measure one way to run programs without a fleet.
    ///
    /// Percentiles are measured with one program at a time, rates with four.
    Baseline {
        /// Way to run the programs.
        #[arg(long)]
        on: On,
        /// Case to measure. Can be repeated.
        #[arg(long = "case", required = true)]
        cases: Vec<Case>,
        /// Python interpreter for `subprocess`.
        #[arg(long, default_value = "python3")]
        python: PathBuf,
        /// Socket of the Docker engine.
        #[arg(long, default_value = "/var/run/docker.sock")]
        docker: String,
        /// Image for `docker-run`, or container for `docker-exec`.
        #[arg(long, default_value = "")]
        of: String,
        /// Number of timed runs.
        #[arg(long, default_value_t = 100)]
        samples: u32,
        /// Time to measure the rate, in seconds.
        #[arg(long, default_value_t = 10)]
        seconds: u64,
    },
    /// Measure the floor, which no fleet can pass: sandboxes without a worker, and bare forks into their namespaces.
    ///
    /// The sandboxes are those of the embedded fleet. Percentiles are measured with one job in flight, and with pauses
    /// in which the next sandbox is made. Rates are measured with several jobs in flight.
    Floor {
        /// Case to measure; by default, all. Can be repeated.
        #[arg(long = "case")]
        cases: Vec<floor::Floor>,
        #[command(flatten)]
        options: closed::Options,
    },
    /// Measure the time from the start of `thermae run` to its result. Each start has an embedded fleet of its own.
    Start {
        /// Path of the program `thermae`; by default, the one beside this program.
        #[arg(long)]
        program: Option<PathBuf>,
        /// Number of timed starts.
        #[arg(long, default_value_t = 30)]
        samples: u32,
    },
    /// Measure prints through the Python package, in turns with the same prints on an embedded fleet in this process.
    Sdk {
        #[command(flatten)]
        options: sdk::Options,
    },
    /// Measure prints through a gateway, in turns with the same prints on the fleet behind it.
    Gateway {
        #[command(flatten)]
        options: gateway::Options,
    },
    /// Measure the memory of idle containers of the embedded fleet, and of sandboxes that are made ahead.
    Weight,
    /// Measure a bare request and reply over RabbitMQ.
    Rpc {
        /// Number of timed round trips.
        #[arg(long, default_value_t = 2000)]
        samples: u32,
    },
    /// Run honest and hostile jobs in a mix, and check every answer.
    ///
    /// The exit status is 1 if an answer is missing or wrong, if memory is not flat, or if a container is not clean.
    Soak {
        #[command(flatten)]
        options: soak::Options,
    },
    /// Measure how much a hostile tenant slows down another one, the victim.
    ///
    /// The victim's jobs run alone, then beside a benign neighbour, then beside the hostile one. The exit status is 1
    /// if one of its jobs is lost, or if the hostile tenant never used one of its means.
    Hostile {
        #[command(flatten)]
        options: hostile::Options,
    },
    /// Act as a neighbour in `hostile`, and print what it did.
    Neighbour {
        /// Kind of neighbour.
        #[arg(long = "as")]
        who: hostile::Neighbour,
        /// Time to act, in seconds.
        #[arg(long)]
        seconds: f64,
        /// Groups of means to leave out (comma-separated).
        #[arg(long, value_delimiter = ',')]
        without: Vec<String>,
    },
    /// Run a scenario, in which jobs arrive at their own pace.
    ///
    /// The scenarios are in `loadtests/scenarios`. The exit status is 1 if an answer is missing or wrong.
    Open {
        /// File of the scenario.
        scenario: PathBuf,
        /// Jobs per second, instead of the scenario's own rate.
        #[arg(long)]
        rate: Option<f64>,
        /// Time to run, in seconds, instead of the scenario's own.
        #[arg(long)]
        seconds: Option<f64>,
        /// Also print where the embedded fleet's time went, by its own metrics.
        #[arg(long)]
        phases: bool,
    },
    /// Measure jobs that are sent at once as soon as the fleet is ready, and the same jobs later.
    First {
        #[command(flatten)]
        options: first::Options,
    },
    /// Measure jobs of many tenants in turn. With `--amqp`, the user in the URL must be one that speaks for every
    /// tenant.
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
    // This program is started again to fork, and as the runner of the embedded fleet's containers.
    if let Some(code) = floor::entry() {
        return Ok(code);
    }
    if let Some(code) = thermae_fleet::runner_entry() {
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
        What::Sdk { options } => return show(&sdk::measure(&args.target, options).await?),
        What::Gateway { options } => return show(&gateway::measure(&args.target, options).await?),
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
        | What::Sdk { .. }
        | What::Gateway { .. }
        | What::Weight
        | What::Rpc { .. }
        | What::Neighbour { .. } => {}
    }
    target.close().await;
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
