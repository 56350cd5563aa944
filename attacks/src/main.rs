//! `thermae-attacks`: tries attacks, and ends with the line `N tried, N held`.

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
use thermae_attacks::site::{Backend, Machine, Place};
use thermae_attacks::suite::Suite;
use tracing_subscriber::EnvFilter;

/// Try attacks: on sandboxes from inside, on a fleet, and on the command line.
///
/// The last line is `N tried, N held`. An attack that is tried in several places counts once, and must hold in all of
/// them. The exit status is 1 if an attack did not hold, or if none was tried.
#[derive(Debug, Parser)]
#[command(name = "thermae-attacks", version)]
struct Args {
    /// Where to try the attacks (comma-separated): native, rootless, docker, docker:RUNTIME, fleet, client.
    ///
    /// With `native`, `rootless` (native as an ordinary user), `docker` and `docker:RUNTIME`, jobs attack containers of
    /// that kind from inside. With `+bash` after one of these, programs in bash start the attacks. With `fleet`, a
    /// tenant attacks a fleet on RabbitMQ and Redis. With `client`, files attack the command line.
    #[arg(long = "backend", value_delimiter = ',', default_value = "native")]
    backends: Vec<Surface>,
    /// Try only these attacks (comma-separated): groups, or GROUP/NAME.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Skip the attacks that take seconds, and all controls.
    #[arg(long)]
    quick: bool,
    /// List the attacks, and try none.
    #[arg(long)]
    list: bool,
    /// Print one JSON object for each attack and place, without the last line.
    #[arg(long)]
    json: bool,
    /// Skip the controls, which show that an attack works where nothing stops it.
    #[arg(long)]
    no_controls: bool,
    /// Folder of the attacks' programs; by default, `attacks/programs` of this source tree.
    #[arg(long)]
    programs: Option<PathBuf>,
    /// Python interpreter for the sandboxes of `rootless`.
    #[arg(long, default_value = "/usr/bin/python3")]
    rootless_python: PathBuf,
    #[command(flatten)]
    machine: Machine,
}

/// A place where attacks are tried.
#[derive(Debug, Clone)]
enum Surface {
    Client,
    Fleet,
    Container(Place),
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
    // The worker starts native containers by starting this program again.
    if let Some(code) = thermae_fleet::runner_entry() {
        return Ok(code);
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
            Surface::Container(place) => {
                let controls = controls && std::mem::take(&mut first);
                inside(&args, place, &folder, &attacks, controls).await?
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

/// Tries the attacks that are programs, from inside the sandboxes of one backend.
async fn inside(args: &Args, place: &Place, folder: &Path, attacks: &[Attack], controls: bool) -> Result<Vec<Report>> {
    let root = rustix::process::geteuid().is_root();
    if place.backend == Backend::Rootless && root {
        return rootless::run(place, &args.rootless_python, folder, attacks, |report| show(args, report)).await;
    }
    let mut place = place.clone();
    if place.backend == Backend::Native && !root {
        // For an ordinary user, native containers are rootless ones.
        place.backend = Backend::Rootless;
    }
    let suite = Suite::open(folder, place, &args.machine, controls).await?;
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

/// Prints a summary by name: controls that can't run here, attacks that were skipped somewhere, and those that did not
/// hold.
fn summary(reports: &[Report]) {
    let skipped = reports.iter().filter(|r| matches!(r.verdict, Verdict::Skipped(_)));
    let uncontrolled = reports.iter().filter(|r| r.control.contains("can't run here"));
    for report in uncontrolled {
        println!("control   {}: {}", report.attack, report.control);
    }
    skipped.chain(reports.iter().filter(|r| matches!(r.verdict, Verdict::NotHeld(_)))).for_each(|r| println!("{r}"));
}
