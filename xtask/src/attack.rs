//! `cargo xtask attack`: every attack of `attacks/`, with its control, wherever it can be tried on this machine. Ends with
//! `N tried, N held`.

use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::Result;

use crate::services::{Service, set::Set};
use crate::{
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
    /// `native`, `rootless`, `docker`, `docker:RUNTIME`, `fleet`, `client`; all but `docker:RUNTIME` by default, where this is root.
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
    crate::fleet::build()?;
    let backends = match (options.backend.as_slice(), rustix::process::geteuid().is_root()) {
        ([], true) => ["native", "rootless", "docker", "fleet", "client"].map(str::to_owned).to_vec(),
        ([], false) => {
            println!("not root: no Docker; native containers are this user's");
            ["native", "fleet", "client"].map(str::to_owned).to_vec()
        }
        (named, _) => named.to_vec(),
    };
    let mut command = Command::new(paths::release().join(PROGRAM));
    command.args(["--backend", &backends.join(",")]);
    if !options.only.is_empty() {
        command.args(["--only", &options.only.join(",")]);
    }
    let mut wanted = Vec::new();
    if backends.iter().any(|backend| backend.starts_with("docker")) {
        wanted.push(Service::Docker);
    }
    if backends.iter().any(|backend| backend == "fleet") {
        wanted.extend([Service::Rabbitmq, Service::Redis]);
    }
    if options.list {
        command.arg("--list");
    } else if !wanted.is_empty() {
        let mut set = Set::open(SET)?;
        // What an earlier run left, if it was killed before it could stop its servers.
        set.stop()?;
        let ran = with_servers(&mut set, &wanted, command);
        set.stop()?;
        return ran;
    }
    attack(command)
}

fn with_servers(set: &mut Set, wanted: &[Service], mut command: Command) -> Result<ExitCode> {
    set.start(wanted)?;
    if wanted.contains(&Service::Docker) {
        let engine = Engine { socket: set.docker_socket()? };
        images::python::ensure(&engine, &images::python::build_runner()?)?;
    }
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
