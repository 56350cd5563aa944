//! `cargo xtask services up|down|status`: one RabbitMQ, one Redis and one Docker engine on the usual ports, for people.
//!
//! A server that already listens there is used as it is. A missing RabbitMQ comes from `compose.yaml` if its image is
//! here or can be pulled. Everything else that is missing comes from the distribution's packages, which are installed
//! where possible. (Compose doesn't publish the port of its Redis.)

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};

use super::{Running, Service, compose::Compose, docker, postgres, rabbitmq, redis, set::Set};
use crate::{images::engine::Engine, process::ProcId};

/// Name of the folder below `target/services`.
const SET: &str = "people";
/// File in that folder that lists the services started with Compose.
const MARK: &str = "compose-started";

const AMQP_PORT: u16 = 5672;
const REDIS_PORT: u16 = 6379;
const POSTGRES_PORT: u16 = 5432;

/// Starts what doesn't run yet, then prints the status.
pub(crate) fn up() -> Result<()> {
    let mut set = Set::open(SET)?;
    let mut missing: Vec<Service> = Service::FLEET.into_iter().filter(|service| !runs(*service)).collect();
    let engine = Engine::of_machine();
    if missing.contains(&Service::Docker) && docker_of(&set).is_some() {
        missing.retain(|service| *service != Service::Docker);
    }
    let servers: Vec<&str> = missing.iter().filter(|s| **s == Service::Rabbitmq).map(|s| s.name()).collect();
    if !servers.is_empty()
        && docker::answers(&engine.socket)
        && let Some(compose) = Compose::find()
        && compose.has_images(&servers)
    {
        let mut args = vec!["up", "--detach", "--wait"];
        args.extend(&servers);
        let output = compose.run(&args)?;
        if !output.status.success() {
            bail!("docker compose: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        fs::write(set.dir().join(MARK), servers.join("\n"))?;
        missing.retain(|service| *service != Service::Rabbitmq);
    }
    for service in &missing {
        set.expect_at(*service, usual_facts(*service));
    }
    set.start(&missing)?;
    status()
}

/// Stops what `up` has started, and nothing else. Then prints the status.
pub(crate) fn down() -> Result<()> {
    let mut set = Set::open(SET)?;
    let mark = set.dir().join(MARK);
    if let Ok(services) = fs::read_to_string(&mark) {
        let mut args = vec!["rm", "--stop", "--force"];
        args.extend(services.lines());
        match Compose::find().map(|compose| compose.run(&args)) {
            Some(Ok(output)) if output.status.success() => fs::remove_file(&mark)?,
            _ => bail!("docker compose could not stop {}", services.replace('\n', " and ")),
        }
    }
    set.stop()?;
    status()
}

/// Prints what runs, where, and who started it.
pub(crate) fn status() -> Result<()> {
    let set = Set::open(SET)?;
    let by_compose = fs::read_to_string(set.dir().join(MARK)).unwrap_or_default();
    for service in Service::FLEET {
        let ours = set.get(service).is_some_and(|running| running.main.alive());
        let (runs, place) = match service {
            Service::Rabbitmq => (runs(service), format!("127.0.0.1:{AMQP_PORT}")),
            Service::Redis => (runs(service), format!("127.0.0.1:{REDIS_PORT}")),
            Service::Docker => {
                let socket = docker_of(&set).unwrap_or_else(|| Engine::of_machine().socket);
                (docker::answers(&socket), format!("unix://{}", socket.display()))
            }
            // Not one of a fleet's.
            Service::Postgres => continue,
        };
        let who = match (runs, ours) {
            (false, _) => "not running",
            (true, true) => "running, started by `services up`",
            (true, false) if by_compose.lines().any(|line| line == service.name()) => "running, started with Compose",
            (true, false) => "running, not ours",
        };
        println!("{:<9} {place:<40} {who}", service.name());
        if service == Service::Rabbitmq && runs && who.ends_with("not ours") {
            println!("{:<9} its users: rabbitmqctl import_definitions images/rabbitmq/definitions.json", "");
        }
    }
    if runs(Service::Rabbitmq) {
        println!("export THERMAE_AMQP='amqp://fleet:fleet@127.0.0.1:{AMQP_PORT}/%2f'");
    }
    if runs(Service::Redis) {
        println!("export THERMAE_REDIS='redis://127.0.0.1:{REDIS_PORT}/'");
    }
    if let Some(socket) = docker_of(&set) {
        println!("export DOCKER_HOST='unix://{}'", socket.display());
    }
    Ok(())
}

/// Whether the usual place of a service answers in the service's protocol.
fn runs(service: Service) -> bool {
    match service {
        Service::Rabbitmq => rabbitmq::answers(AMQP_PORT),
        Service::Redis => redis::answers(REDIS_PORT),
        Service::Docker => docker::answers(&Engine::of_machine().socket),
        Service::Postgres => postgres::answers(POSTGRES_PORT),
    }
}

/// The socket of the engine that `up` has started; `None` if that engine doesn't run.
fn docker_of(set: &Set) -> Option<PathBuf> {
    let running = set.get(Service::Docker).filter(|running| running.main.alive())?;
    running.fact("socket").ok().map(|socket| Path::new(socket).to_path_buf())
}

/// The entry of a stopped server on the usual ports, so that `start` uses these ports; `None` for Docker.
fn usual_facts(service: Service) -> Option<Running> {
    let facts: &[(&str, &str)] = match service {
        Service::Rabbitmq => &[("port", "5672"), ("epmd_port", "24369"), ("dist_port", "25672")],
        Service::Redis => &[("port", "6379")],
        Service::Docker | Service::Postgres => return None,
    };
    let facts: BTreeMap<String, String> =
        facts.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Some(Running { main: ProcId { pid: 0, start: 0 }, helpers: Vec::new(), facts })
}
