//! Servers for tests, benches and people: RabbitMQ, Redis, dockerd and Postgres.
//!
//! A *set* is a folder below `target/services` with its own servers, which have their own ports, data, sockets and
//! epmd. Every test run, every bench and everyone who runs single tests by hand uses a set. Nothing here ever touches a
//! server that it didn't start. The file `state.json` in the folder lists what runs, so that another process can stop
//! the set, and the next run can remove what a killed one left.

pub(crate) mod certs;
pub(crate) mod compose;
pub(crate) mod docker;
pub(crate) mod packages;
pub(crate) mod people;
pub(crate) mod postgres;
pub(crate) mod prometheus;
pub(crate) mod rabbitmq;
pub(crate) mod redis;
pub(crate) mod set;

use std::{
    collections::BTreeMap,
    fs::File,
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::process::ProcId;

/// A server that a set can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Service {
    /// The message broker, with the fleet's user and two tenants.
    Rabbitmq,
    /// The registry, with `noeviction` and nothing on disk.
    Redis,
    /// The container engine.
    Docker,
    /// The database of API keys.
    Postgres,
}

impl Service {
    /// All services, in the order in which they are started.
    pub(crate) const ALL: [Self; 4] = [Self::Docker, Self::Rabbitmq, Self::Redis, Self::Postgres];
    /// Those of a fleet.
    pub(crate) const FLEET: [Self; 3] = [Self::Docker, Self::Rabbitmq, Self::Redis];

    /// The service's name on the command line, and the name of its folder.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rabbitmq => "rabbitmq",
            Self::Redis => "redis",
            Self::Docker => "docker",
            Self::Postgres => "postgres",
        }
    }
}

/// A server that was started, as it is written to the state file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Running {
    /// The server's own process.
    pub(crate) main: ProcId,
    /// Processes that the server needs (epmd, containerd). They are stopped after it.
    #[serde(default)]
    pub(crate) helpers: Vec<ProcId>,
    /// Ports and paths, which stay the same after a restart.
    pub(crate) facts: BTreeMap<String, String>,
}

impl Running {
    /// A fact by name. The `start` function of the service has set it.
    pub(crate) fn fact(&self, key: &str) -> Result<&str> {
        self.facts.get(key).map(String::as_str).with_context(|| format!("the state file has no `{key}`"))
    }
}

/// A port that nobody listens on at 127.0.0.1.
///
/// It lies below the range that the kernel uses for outgoing connections. So it is still free when a killed server is
/// started again.
pub(crate) fn free_port() -> Result<u16> {
    let seed = Instant::now();
    let mut random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), seed);
    for _ in 0..1000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let port = 20_000 + (random >> 33) as u16 % 12_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port between 20000 and 32000 on 127.0.0.1")
}

/// Starts a server that appends its output to a log file. The command must come from
/// [`crate::process::in_own_session`]: then Ctrl-C reaches only xtask, which stops the server in order.
pub(crate) fn spawn(command: &mut Command, log: &Path) -> Result<ProcId> {
    if let Some(dir) = log.parent() {
        std::fs::create_dir_all(dir)?;
    }
    let out = File::options().create(true).append(true).open(log).with_context(|| format!("open {}", log.display()))?;
    let err = out.try_clone()?;
    let child = command
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .spawn()
        .with_context(|| format!("start the server of {}", log.display()))?;
    let pid = i32::try_from(child.id()).context("pid out of range")?;
    // Dropping the handle neither ends the server nor waits for it. From here on, the state file has its identity.
    ProcId::of(pid).with_context(|| format!("the server of {} ended at once", log.display()))
}

/// Waits until a server answers. Fails with the end of its log if it dies or takes longer than `limit`.
pub(crate) fn await_ready(
    name: &str,
    server: ProcId,
    log: &Path,
    limit: Duration,
    mut answers: impl FnMut() -> bool,
) -> Result<()> {
    let mut died = false;
    let ready = crate::process::wait_until(limit, || {
        died = !server.alive();
        died || crate::supervise::interrupted() || answers()
    });
    if crate::supervise::interrupted() {
        bail!("interrupted while {name} was starting");
    }
    if ready && !died {
        return Ok(());
    }
    let why = if died { "ended".to_owned() } else { format!("did not answer within {} s", limit.as_secs()) };
    bail!("{name} {why}; the end of {}:\n{}", log.display(), tail(log, 20))
}

/// The last lines of a text file; empty if it can't be read.
pub(crate) fn tail(file: &Path, lines: usize) -> String {
    let text = std::fs::read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
