//! `thermae-attacks`: tries attacks from inside sandboxes, and ends with the line `N tried, N held`.

#![forbid(unsafe_code)]

mod rootless;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use thermae_attacks::program::{self, Attack};
use thermae_attacks::report::{Report, Verdict, tally};
use thermae_attacks::scenarios::{self, Scenario};
use thermae_attacks::site::{Backend, Machine};
use thermae_attacks::suite::Suite;
use tracing_subscriber::EnvFilter;

/// Attacks on the sandbox, each really tried from inside one.
#[derive(Debug, Parser)]
#[command(name = "thermae-attacks", version)]
struct Args {
    /// Where jobs attack, by what draws the outer wall: `native`, `rootless` (native, as an ordinary user), `docker`, `docker:RUNTIME`;
    /// `fleet` (a tenant attacks a fleet on RabbitMQ and Redis); `client` (files attack the command line). An attack counts once, and must
    /// hold wherever it is tried.
    #[arg(long = "backend", value_delimiter = ',', default_value = "native")]
    backends: Vec<Surface>,
    /// Only these: a group, or `GROUP/NAME`.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// The short form: without those that take seconds, and without the controls.
    #[arg(long)]
    quick: bool,
    /// Lists the attacks and runs none.
    #[arg(long)]
    list: bool,
    /// One JSON object per attack and backend, and no last line.
    #[arg(long)]
    json: bool,
    /// Leaves the controls out.
    #[arg(long)]
    no_controls: bool,
    /// Folder of the programs.
    #[arg(long)]
    programs: Option<PathBuf>,
    /// Interpreter of the ordinary user's sandboxes.
    #[arg(long, default_value = "/usr/bin/python3")]
    rootless_python: PathBuf,
    #[command(flatten)]
    machine: Machine,
}

/// Where attacks are tried.
#[derive(Debug, Clone)]
enum Surface {
    Client,
    Fleet,
    Container(Backend),
}

impl FromStr for Surface {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "client" => Ok(Self::Client),
            "fleet" => Ok(Self::Fleet),
            other => other.parse().map(Self::Container).map_err(|error: String| format!("{error}, fleet or client")),
        }
    }
}

fn main() -> Result<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    // The worker starts native containers by starting this program again.
    if words.next().is_some_and(|word| word == "__runner") {
        return Ok(thermae_runner::main_with(words));
    }
    let args = Args::parse();
    let filter = EnvFilter::try_from_env("THERMAE_LOG").unwrap_or_else(|_| EnvFilter::new("error,lapin=off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    thermae_attacks::machine::recover().context("give the machine its settings back")?;
    thermae_attacks::machine::be_generous();
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run(args))
}

async fn run(args: Args) -> Result<ExitCode> {
    let folder = args.programs.clone().unwrap_or_else(program::folder);
    let wanted = |attack: &Attack| {
        let named = args.only.iter().any(|only| attack.name == *only || attack.group() == only);
        (named || args.only.is_empty()) && !(args.quick && attack.sheet.slow)
    };
    let attacks: Vec<_> = program::load(&folder)?.into_iter().filter(wanted).collect();
    let wanted = |scenario: &Scenario| {
        let named = args.only.iter().any(|only| scenario.name == only || scenario.group() == only);
        (named || args.only.is_empty()) && !(args.quick && scenario.sheet.slow)
    };
    let scenarios: Vec<_> = scenarios::load()?.into_iter().filter(wanted).collect();
    ensure!(!attacks.is_empty() || !scenarios.is_empty(), "no attack is called {}", args.only.join(", "));
    if args.list {
        attacks.iter().for_each(|attack| println!("{}: {}", attack.name, attack.sheet.tries));
        scenarios.iter().for_each(|scenario| println!("{}: {}", scenario.name, scenario.sheet.tries));
        return Ok(ExitCode::SUCCESS);
    }
    let mut reports = Vec::new();
    let mut first = true;
    for surface in &args.backends {
        let controls = !args.no_controls && !args.quick;
        let show = |report: &Report| show(&args, report);
        reports.extend(match surface {
            Surface::Client => scenarios::run_on_client(&scenarios, controls, show)?,
            Surface::Fleet => scenarios::run_on_fleet(&scenarios, controls, show).await?,
            Surface::Container(_) if attacks.is_empty() => continue,
            Surface::Container(backend) => {
                let controls = controls && std::mem::take(&mut first);
                inside(&args, backend, &folder, &attacks, controls).await?
            }
        });
    }
    let (tried, held) = tally(&reports);
    if !args.json {
        summary(&reports);
        println!("{tried} tried, {held} held");
    }
    Ok(if tried == held && tried > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Tries those that are programs, from inside the sandboxes of one backend.
async fn inside(
    args: &Args,
    backend: &Backend,
    folder: &Path,
    attacks: &[Attack],
    controls: bool,
) -> Result<Vec<Report>> {
    let root = rustix::process::geteuid().is_root();
    if *backend == Backend::Rootless && root {
        return rootless::run(&args.rootless_python, folder, attacks, |report| show(args, report)).await;
    }
    // What is native for an ordinary user is rootless.
    let backend = if *backend == Backend::Native && !root { Backend::Rootless } else { backend.clone() };
    let suite = Suite::open(folder, backend, &args.machine, controls).await?;
    let mut reports = Vec::new();
    for attack in attacks {
        let report = suite.attack(attack).await;
        show(args, &report)?;
        reports.push(report);
    }
    suite.close().await;
    Ok(reports)
}

fn show(args: &Args, report: &Report) -> Result<()> {
    if args.json {
        println!("{}", serde_json::to_string(report).context("a report as JSON")?);
    } else {
        println!("{report}");
    }
    Ok(())
}

/// What is to be said by name: what was not run somewhere, and which controls could not be.
fn summary(reports: &[Report]) {
    let skipped = reports.iter().filter(|r| matches!(r.verdict, Verdict::Skipped(_)));
    let uncontrolled = reports.iter().filter(|r| r.control.contains("can't run here"));
    for report in uncontrolled {
        println!("control   {}: {}", report.attack, report.control);
    }
    skipped.chain(reports.iter().filter(|r| matches!(r.verdict, Verdict::NotHeld(_)))).for_each(|r| println!("{r}"));
}
