//! `cargo xtask soak`: mixes honest and hostile jobs on a fleet of its own. Nothing may be left afterwards.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::fleet::{self, Containers, Fleet};
use crate::images::{self, engine::Engine};
use crate::services::{Service, set::Set};
use crate::test::watchdog::Watchdog;
use crate::{paths, supervise};

/// Longer than ten thousand jobs take on a busy machine.
const LIMIT: Duration = Duration::from_secs(7200);

/// How much, and on what.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// Number of jobs.
    #[arg(long, default_value_t = 10_000)]
    jobs: u64,
    /// Use the embedded fleet with native sandboxes, instead of a real fleet on RabbitMQ, Redis and Docker.
    #[arg(long)]
    embedded: bool,
}

/// Runs the soak. Fails if anything of it is left afterwards.
pub(crate) fn run(options: &Options) -> Result<()> {
    supervise::begin()?;
    fleet::build()?;
    let dir = paths::root().join("target/soak");
    fs::create_dir_all(&dir)?;
    let before = Watchdog::before();
    let soaked = if options.embedded { load(options, &[]) } else { on_docker(options, &dir) };
    let left = before.after()?;
    soaked?;
    ensure!(left.is_empty(), "left behind: {}", left.join("; "));
    println!("no process, no container, no mount, no control group left");
    Ok(())
}

fn on_docker(options: &Options, dir: &Path) -> Result<()> {
    let mut set = Set::open("soak")?;
    // An earlier run leaves its servers behind if it is killed.
    set.stop()?;
    let soaked = set.start(&Service::FLEET).and_then(|()| on_set(options, &set, dir));
    set.stop()?;
    soaked
}

fn on_set(options: &Options, set: &Set, dir: &Path) -> Result<()> {
    let facts: std::collections::BTreeMap<_, _> = set.environment()?.into_iter().collect();
    let fact = |name: &str| facts.get(name).map(String::as_str).with_context(|| format!("the services gave no {name}"));
    let engine = Engine { socket: set.docker_socket()? };
    images::python::ensure(&engine, &images::python::build_runner()?)?;
    let amqp = fact("THERMAE_TEST_AMQP")?;
    let containers = Containers::Docker { socket: fact("THERMAE_TEST_DOCKER")?, image: images::PYTHON };
    let fleet = Fleet::start(dir, amqp, fact("THERMAE_TEST_REDIS")?, containers)?;
    let mut more = vec!["--amqp".to_owned(), fact("THERMAE_TEST_AMQP_TENANT")?.to_owned()];
    more.extend(fleet.pids().flat_map(|(name, pid)| ["--watch".to_owned(), format!("{name}={pid}")]));
    let soaked = load(options, &more);
    drop(fleet);
    soaked?;
    let containers = engine.run(&["ps", "--all", "--format", "{{.Names}}"])?;
    ensure!(containers.is_empty(), "containers left behind: {}", containers.replace('\n', ", "));
    Ok(())
}

fn load(options: &Options, more: &[String]) -> Result<()> {
    let mut command = Command::new(paths::release().join("thermae-loadtests"));
    command.args(["soak", "--jobs", &options.jobs.to_string()]).args(more);
    let finished = supervise::run(command, &crate::test::log("soak"), LIMIT, |line| println!("{line}"))?;
    ensure!(finished.failure.is_none(), "the soak failed: {}", finished.failure.unwrap_or_default());
    Ok(())
}
