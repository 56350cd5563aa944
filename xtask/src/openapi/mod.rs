//! `cargo xtask openapi`: tries the gateway against its own OpenAPI document, with requests that schemathesis makes.
//!
//! A check that finds nothing may be unable to find anything. So a proxy that plants faults is checked, too, and the
//! faults must be found.

mod gateway;

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use crate::{fleet, paths, services, supervise, test, venv::Venv};
use gateway::{Serving, TOKEN};

/// What makes the requests.
const PACKAGES: [&str; 1] = ["schemathesis==4.32.5"];

/// Longer than a whole check takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(3600);

/// The operation that schemathesis tries to find the planted faults.
const TRIED: [&str; 2] = ["--include-operation-id", "listRuns"];

/// What it must say of them. Only requests that the document does not describe, which are in the phase `coverage`, find
/// the second one.
const PLANTED: [&str; 2] = ["Response violates schema", "without required `Allow` header"];

/// How many requests `--quick` generates for each operation.
const FEW: u32 = 5;

/// How much is tried.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Options {
    /// Number of generated requests for each operation.
    #[arg(long, default_value_t = 200)]
    examples: u32,
    /// Seed of the generated requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Generate few requests, as a test. The program must already be built.
    #[arg(long)]
    quick: bool,
}

/// Builds the program, and checks it. Fails if the gateway and its document differ, or if a planted fault is not found.
pub(crate) fn run(mut options: Options) -> Result<()> {
    supervise::begin()?;
    if options.quick {
        options.examples = FEW;
    } else {
        fleet::build()?;
    }
    check(options)
}

/// Checks the release build of the program.
fn check(options: Options) -> Result<()> {
    let tools = Venv::with(paths::target().join("schemathesis"), &PACKAGES)?;
    let gateway = Serving::gateway()?;
    if let Some(found) = schemathesis(&tools, &gateway.url, options, &[], "openapi-gateway")? {
        bail!("the gateway and its document differ: {found}");
    }
    let proxy = Serving::planted(&mut tools.command("python"), &gateway)?;
    let found = schemathesis(&tools, &proxy.url, options, &TRIED, "openapi-planted")?.unwrap_or_default();
    for says in PLANTED {
        ensure!(found.contains(says), "a planted fault was not found ({says}): {found}");
    }
    Ok(())
}

/// Runs schemathesis. Gives the end of what it printed if it found something.
fn schemathesis(tools: &Venv, url: &str, options: Options, only: &[&str], log: &str) -> Result<Option<String>> {
    let mut command = command(tools, url, options);
    command.args(only);
    let log = test::log(log);
    let finished = supervise::run(command, &log, LIMIT, |_| {})?;
    ensure!(!supervise::interrupted(), "interrupted");
    Ok(finished.failure.map(|why| format!("{why}; see {}\n{}", log.display(), services::tail(&log, 400))))
}

/// A command with the settings of schemathesis, and the failures that are none.
fn command(tools: &Venv, url: &str, Options { examples, seed, .. }: Options) -> Command {
    let settings = paths::root().join("xtask/src/openapi");
    let mut command = tools.command("schemathesis");
    command.arg("--config-file").arg(settings.join("schemathesis.toml"));
    command.args(["run", &format!("{url}/v1/openapi.json"), "--header", &format!("Authorization: Bearer {TOKEN}")]);
    command.args(["--max-examples", &examples.to_string(), "--seed", &seed.to_string()]);
    command.env("SCHEMATHESIS_HOOKS", settings.join("exceptions.py"));
    // Nothing is written beside the source.
    command.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(paths::target());
    command
}
