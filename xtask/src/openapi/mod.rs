//! `cargo xtask openapi`: tries the gateway against its own OpenAPI document, with requests that schemathesis makes.
//!
//! A check that finds nothing may be unable to find anything. So a proxy that plants a fault is checked, too, and the
//! fault must be found.

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

/// What schemathesis must say of the planted fault, and the operation that it tries to find it.
const PLANTED: (&str, &[&str]) = ("Response violates schema", &["--include-operation-id", "listRuns"]);

/// How much is tried.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Options {
    /// Number of generated requests for each operation.
    #[arg(long, default_value_t = 200)]
    examples: u32,
    /// Seed of the generated requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Builds the program, and checks it. Fails if the gateway and its document differ, or if a planted fault was not found.
pub(crate) fn run(options: Options) -> Result<()> {
    supervise::begin()?;
    fleet::build()?;
    check(options.examples, options.seed)
}

/// Checks the release build of the program.
fn check(examples: u32, seed: u64) -> Result<()> {
    let tools = Venv::with(paths::target().join("schemathesis"), &PACKAGES)?;
    let gateway = Serving::gateway()?;
    if let Some(found) = schemathesis(&tools, &gateway.url, examples, seed, &[], "openapi")? {
        bail!("the gateway and its document differ: {found}");
    }
    let (says, only) = PLANTED;
    let proxy = Serving::planted(&mut tools.command("python"), &gateway)?;
    let found = schemathesis(&tools, &proxy.url, examples.max(20), seed, only, "openapi-planted")?.unwrap_or_default();
    ensure!(found.contains(says), "the planted fault was not found: {found}");
    Ok(())
}

/// Runs schemathesis. Gives the end of what it printed if it found something.
fn schemathesis(tools: &Venv, url: &str, examples: u32, seed: u64, only: &[&str], log: &str) -> Result<Option<String>> {
    let mut command = command(tools, url, examples, seed);
    command.args(only);
    let log = test::log(log);
    let finished = supervise::run(command, &log, LIMIT, |_| {})?;
    ensure!(!supervise::interrupted(), "interrupted");
    Ok(finished.failure.map(|why| format!("{why}; see {}\n{}", log.display(), services::tail(&log, 400))))
}

fn command(tools: &Venv, url: &str, examples: u32, seed: u64) -> Command {
    let mut command = tools.command("schemathesis");
    command.args(["--config-file", &config().display().to_string(), "run", &format!("{url}/v1/openapi.json")]);
    command.args(["--header", &format!("Authorization: Bearer {TOKEN}")]);
    command.args(["--max-examples", &examples.to_string(), "--seed", &seed.to_string()]);
    command.current_dir(paths::target());
    command
}

/// The settings of schemathesis, with the reason for each exception.
fn config() -> std::path::PathBuf {
    paths::root().join("xtask/src/openapi/schemathesis.toml")
}
