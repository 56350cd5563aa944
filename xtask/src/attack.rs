//! `cargo xtask attack`: every attack of `attacks/`, with its control, on every backend that this machine has. Ends with
//! `N tried, N held`.

use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::Result;

use crate::services::{Service, set::Set};
use crate::{
    cargo,
    images::{self, engine::Engine},
    paths, supervise,
};

/// Name of the set of servers.
const SET: &str = "attack";

/// The program.
const PROGRAM: &str = "thermae-attacks";

/// Longer than all of it takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(1800);

/// What is tried, and where.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// `native`, `rootless`, `docker`, `docker:RUNTIME`; all but the last by default, where this is root.
    #[arg(long, value_delimiter = ',')]
    backend: Vec<String>,
    /// Only these: a group, or `GROUP/NAME`.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Lists the attacks and runs none.
    #[arg(long)]
    list: bool,
}

/// Builds what is needed, starts an engine if one is asked for, runs it all, stops the engine.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    supervise::begin()?;
    let built = cargo::command(&["build", "--release", "--package", PROGRAM]).status()?;
    anyhow::ensure!(built.success(), "{PROGRAM} could not be built");
    let backends = match (options.backend.as_slice(), rustix::process::geteuid().is_root()) {
        ([], true) => ["native", "rootless", "docker"].map(str::to_owned).to_vec(),
        ([], false) => {
            println!("not root: native containers of this user's only");
            vec!["native".to_owned()]
        }
        (named, _) => named.to_vec(),
    };
    let mut command = Command::new(paths::release().join(PROGRAM));
    command.args(["--backend", &backends.join(",")]);
    if !options.only.is_empty() {
        command.args(["--only", &options.only.join(",")]);
    }
    if options.list {
        command.arg("--list");
    } else if backends.iter().any(|backend| backend.starts_with("docker")) {
        let mut set = Set::open(SET)?;
        // What an earlier run left, if it was killed before it could stop its engine.
        set.stop()?;
        let ran = with_engine(&mut set, command);
        set.stop()?;
        return ran;
    }
    attack(command)
}

fn with_engine(set: &mut Set, mut command: Command) -> Result<ExitCode> {
    set.start(&[Service::Docker])?;
    let engine = Engine { socket: set.docker_socket()? };
    images::python::ensure(&engine, &images::python::build_runner()?)?;
    command.envs(set.environment()?);
    attack(command)
}

fn attack(command: Command) -> Result<ExitCode> {
    let log = crate::test::log("attack");
    let finished = supervise::run(command, &log, LIMIT, |line| println!("{line}"))?;
    if let Some(why) = &finished.failure {
        eprintln!("error: {why}");
    }
    Ok(if finished.failure.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
