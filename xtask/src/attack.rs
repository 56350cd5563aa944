//! `cargo xtask attack`: tries every attack of `attacks/` that this machine allows, each with its control. Its last
//! line is `N tried, N held`.

use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::Result;

use crate::services::{Service, set::Set};
use crate::{
    images::{self, engine::Engine},
    paths, supervise,
};

/// Name of the set of servers; another run with the same name would stop them.
const SET: &str = "attack";

const PROGRAM: &str = "thermae-attacks";

/// Longer than all attacks take on a busy machine.
const LIMIT: Duration = Duration::from_secs(1800);

/// What is tried, and where.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// Where to try the attacks (comma-separated): native, rootless, docker, docker:RUNTIME, fleet, client.
    ///
    /// With `+bash` after one of the first four, programs in bash start the attacks. By default, root tries `native`,
    /// `native+bash`, `rootless`, `docker`, `docker+bash`, `fleet` and `client`; other users try those that they can.
    #[arg(long, value_delimiter = ',')]
    backend: Vec<String>,
    /// Try only these attacks (comma-separated): groups, or GROUP/NAME.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// List the attacks, and try none.
    #[arg(long)]
    list: bool,
}

/// Builds the programs, starts the servers that the backends need, tries the attacks, and stops the servers.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    supervise::begin()?;
    crate::fleet::build()?;
    let backends = match (options.backend.as_slice(), rustix::process::geteuid().is_root()) {
        ([], true) => ["native", "native+bash", "rootless", "docker", "docker+bash", "fleet", "client"]
            .map(str::to_owned)
            .to_vec(),
        ([], false) => {
            println!("not root: no Docker; native containers are this user's");
            ["native", "native+bash", "fleet", "client"].map(str::to_owned).to_vec()
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
        // An earlier run leaves its servers behind if it is killed.
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
