//! What the Python package costs: prints through it, in turns with the same prints on an embedded fleet in this
//! process.
//!
//! Each side has an embedded fleet of its own. The package's is in a bridge of the same build, in a process of its own.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hdrhistogram::Histogram;
use serde::Deserialize;
use thermae_client::Client;
use tokio::task::JoinSet;

use crate::cases::Case;
use crate::report::Row;
use crate::target;

/// How much is measured, and with what.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Folder of the package's source; it has `src` and `scripts`.
    #[arg(long)]
    pub package: PathBuf,
    /// Path of the program `thermae`; by default, the one beside this program.
    #[arg(long)]
    pub program: Option<PathBuf>,
    /// Number of timed prints of each side, with one in flight.
    #[arg(long, default_value_t = 500)]
    pub jobs: u32,
    /// Prints in flight while the rate is measured.
    #[arg(long, default_value_t = 8)]
    pub in_flight: u32,
    /// Number of prints of each side for the rate.
    #[arg(long, default_value_t = 4000)]
    pub rate_jobs: u32,
}

/// Turns of each side. A change of the machine's load meets all sides.
const TURNS: u32 = 20;

/// Untimed prints of each side at the start.
const WARM_UP: u32 = 50;

/// Measures `print` through `Sandbox` (the row `sdk`) and `AsyncSandbox` (`sdk_async`), in turns with the embedded
/// fleet of this process (`beside_sdk`).
///
/// # Errors
/// There is no embedded fleet, the package's program can't be started, or an answer is wrong.
pub async fn measure(target: &target::Options, options: &Options) -> Result<Vec<Row>> {
    ensure!(target.amqp.is_none(), "the package is compared with the embedded fleet: leave --amqp out");
    let beside = || anyhow::Ok(std::env::current_exe()?.with_file_name("thermae"));
    let program = options.program.clone().map_or_else(beside, Ok)?;
    let python = target.python.clone().unwrap_or_else(|| "python3".into());
    let here = target.open().await?;
    here.ready().await;
    let package = |class| Package::start(&python, &options.package, &program, class);
    let (mut plain, mut on_a_loop) = (package("Sandbox")?, package("AsyncSandbox")?);
    let mut sides = ["beside_sdk", "sdk", "sdk_async"].map(Side::new);
    let runs = [(WARM_UP, 1), (WARM_UP, options.in_flight)]
        .into_iter()
        .map(|(prints, at_once)| (prints, at_once, false))
        .chain((0..TURNS).map(|_| (options.jobs.div_ceil(TURNS), 1, true)))
        .chain((0..TURNS).map(|_| (options.rate_jobs.div_ceil(TURNS), options.in_flight, true)));
    for (prints, at_once, counts) in runs {
        let turns = [
            turn(&here.client, prints, at_once).await?,
            plain.turn(prints, at_once)?,
            on_a_loop.turn(prints, at_once)?,
        ];
        for (side, turn) in sides.iter_mut().zip(turns).filter(|_| counts) {
            side.add(prints, &turn)?;
        }
    }
    plain.end()?;
    on_a_loop.end()?;
    here.close().await;
    Ok(sides.iter().map(Side::row).collect())
}

/// What one turn took.
#[derive(Debug, Deserialize)]
struct Turn {
    /// Time of the whole turn.
    seconds: f64,
    /// Time of each print, if there was one at a time.
    each: Vec<f64>,
}

/// The sum of one side's turns.
struct Side {
    on: &'static str,
    times: Histogram<u64>,
    prints: u32,
    seconds: f64,
}

impl Side {
    fn new(on: &'static str) -> Self {
        let times = Histogram::new(3).unwrap_or_else(|_| unreachable!("three digits are allowed"));
        Self { on, times, prints: 0, seconds: 0.0 }
    }

    fn add(&mut self, prints: u32, turn: &Turn) -> Result<()> {
        if turn.each.is_empty() {
            self.prints += prints;
            self.seconds += turn.seconds;
        }
        turn.each.iter().try_for_each(|seconds| self.times.record((seconds * 1e9) as u64)).map_err(Into::into)
    }

    fn row(&self) -> Row {
        let rate = (self.seconds > 0.0).then(|| f64::from(self.prints) / self.seconds);
        Row::new(Case::Print.as_str(), self.on, &self.times, rate)
    }
}

/// Runs prints with the client of this process.
async fn turn(client: &Client, prints: u32, at_once: u32) -> Result<Turn> {
    let begun = Instant::now();
    let mut each = Vec::new();
    if at_once == 1 {
        for _ in 0..prints {
            each.push(once(client).await?.as_secs_f64());
        }
    } else {
        let mut flight = JoinSet::new();
        for n in 0..prints {
            if n >= at_once {
                flight.join_next().await.context("nothing is in flight")???;
            }
            let client = client.clone();
            flight.spawn(async move { once(&client).await });
        }
        while let Some(ended) = flight.join_next().await {
            ended??;
        }
    }
    Ok(Turn { seconds: begun.elapsed().as_secs_f64(), each })
}

async fn once(client: &Client) -> Result<Duration> {
    let begun = Instant::now();
    let outcome = client.submit(Case::Print.job(""), None).await?.result().await?;
    let took = begun.elapsed();
    Case::Print.check(&outcome).map_or_else(|wrong| bail!(wrong), |_| Ok(took))
}

/// A program that uses the package. It ends when its input does, or with this object.
struct Package {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Package {
    fn start(python: &Path, package: &Path, program: &Path, class: &str) -> Result<Self> {
        let mut command = Command::new(python);
        command.arg(package.join("scripts/prints.py")).arg(class);
        command.env("PYTHONPATH", package.join("src")).env("THERMAE_BIN", program).env_remove("THERMAE_URL");
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("start Python")?;
        let (input, output) = (process.stdin.take(), process.stdout.take().context("no output")?);
        Ok(Self { process, input, output: BufReader::new(output) })
    }

    fn turn(&mut self, prints: u32, at_once: u32) -> Result<Turn> {
        let input = self.input.as_mut().context("no input")?;
        writeln!(input, r#"{{"prints": {prints}, "at_once": {at_once}}}"#)?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        serde_json::from_str(&line).context("the program that uses the package has failed")
    }

    fn end(mut self) -> Result<()> {
        self.input = None;
        let status = self.process.wait()?;
        ensure!(status.success(), "the program that uses the package: {status}");
        Ok(())
    }
}

impl Drop for Package {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
