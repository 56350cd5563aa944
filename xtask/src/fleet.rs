//! A real fleet for measurements: release programs on a private set of servers.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::process::{ProcId, in_own_session};
use crate::{cargo, http, paths};

/// Builds all programs, optimised.
pub(crate) fn build() -> Result<()> {
    build_in(&paths::root())
}

/// Builds all programs of a checkout, optimised.
pub(crate) fn build_in(root: &Path) -> Result<()> {
    let mut command = cargo::command(&["build", "--release", "--workspace", "--bins"]);
    let status = command.current_dir(root).status().context("start cargo")?;
    ensure!(status.success(), "the build failed");
    Ok(())
}

/// What the worker's containers are made by.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Containers<'a> {
    /// The engine at this socket, from this image.
    Docker { socket: &'a str, image: &'a str },
    /// The worker itself, as root.
    Native,
}

impl Containers<'_> {
    fn config(self) -> String {
        match self {
            Self::Docker { socket, image } => {
                format!("[docker]\nsocket = {socket:?}\n[pools.default]\nbackend = \"docker\"\nimage = {image:?}\n")
            }
            Self::Native => "[pools.default]\nbackend = \"native\"\n".to_owned(),
        }
    }
}

/// A scheduler and a worker with shipped defaults.
pub(crate) struct Fleet {
    processes: Vec<(&'static str, Child)>,
    /// Where the program that was started last, the worker, tells its health and its metrics.
    listen: String,
}

/// A worker that has made no container for so long makes none, if no jobs come. It puts off those that nobody waits for
/// by a second at most.
const CALM: Duration = Duration::from_secs(3);

impl Fleet {
    /// Starts both and waits until they are ready; their configuration and logs are in `dir`.
    pub(crate) fn start(dir: &Path, amqp: &str, redis: &str, containers: Containers<'_>) -> Result<Self> {
        Self::start_with(dir, amqp, redis, containers, "")
    }

    /// The same; `worker` are lines of the worker's configuration.
    pub(crate) fn start_with(
        dir: &Path,
        amqp: &str,
        redis: &str,
        containers: Containers<'_>,
        worker: &str,
    ) -> Result<Self> {
        Self::start_from(&paths::release(), dir, amqp, redis, containers, worker)
    }

    /// The same, with the programs in that folder.
    pub(crate) fn start_from(
        release: &Path,
        dir: &Path,
        amqp: &str,
        redis: &str,
        containers: Containers<'_>,
        worker: &str,
    ) -> Result<Self> {
        let mut fleet = Self { processes: Vec::new(), listen: String::new() };
        let worker = format!("{worker}{}", containers.config());
        for (program, more) in [("thermae-scheduler", ""), ("thermae-worker", worker.as_str())] {
            let listen = format!("127.0.0.1:{}", TcpListener::bind("127.0.0.1:0")?.local_addr()?.port());
            let config = dir.join(program).with_extension("toml");
            fs::write(&config, format!("amqp = {amqp:?}\nredis = {redis:?}\nlisten = {listen:?}\n{more}"))?;
            let log = File::create(dir.join(program).with_extension("log"))?;
            let mut command = in_own_session(release.join(program));
            command.arg("--config").arg(&config).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
            fleet.processes.push((program, command.spawn().with_context(|| format!("start {program}"))?));
            await_ready(program, &listen, fleet.processes.last_mut().map(|(_, child)| child))?;
            fleet.listen = listen;
        }
        Ok(fleet)
    }

    /// Waits until the worker makes no containers any more. A tenant's first jobs take those that stood ready for
    /// anybody, and others are made in their place.
    pub(crate) fn settle(&self) -> Result<()> {
        let (begun, mut calm, mut last) = (Instant::now(), Instant::now(), 0);
        while calm.elapsed() < CALM {
            ensure!(begun.elapsed() < Duration::from_secs(90), "the worker makes containers without end");
            std::thread::sleep(Duration::from_millis(100));
            let (all, creating) = containers(&http::get(&self.listen, "/metrics")?.1)?;
            if all != last || creating > 0 {
                (calm, last) = (Instant::now(), all);
            }
        }
        Ok(())
    }

    /// Its processes, by name.
    pub(crate) fn pids(&self) -> impl Iterator<Item = (&'static str, u32)> {
        self.processes.iter().map(|(name, child)| (*name, child.id()))
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for (_, child) in self.processes.iter_mut().rev() {
            if let Some(process) = ProcId::of(child.id() as i32) {
                process.stop(Duration::from_secs(60));
            }
            let _ = child.wait();
        }
    }
}

fn await_ready(program: &str, listen: &str, child: Option<&mut Child>) -> Result<()> {
    let (begun, child) = (Instant::now(), child.context("no process")?);
    while !http::get(listen, "/readyz").is_ok_and(|(status, _)| status == 200) {
        if let Some(status) = child.try_wait()? {
            bail!("{program} ended with {status}; its log is beside its configuration");
        }
        ensure!(
            begun.elapsed() < Duration::from_secs(90),
            "{program} was not ready in time; its log is beside its configuration"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// How many containers a worker has, by its metrics, and how many of those it is still making.
fn containers(metrics: &str) -> Result<(u64, u64)> {
    let (mut all, mut creating) = (None, 0);
    for line in metrics.lines().filter(|line| line.starts_with("thermae_worker_containers{")) {
        let count: u64 = line.rsplit(' ').next().unwrap_or_default().parse().with_context(|| line.to_owned())?;
        all = Some(all.unwrap_or(0) + count);
        creating += if line.contains("state=\"creating\"") { count } else { 0 };
    }
    Ok((all.context("the worker tells of no containers")?, creating))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_counted_whatever_they_do() {
        let metrics = "# TYPE thermae_worker_containers gauge\n\
            thermae_worker_containers{pool=\"default\",state=\"creating\"} 1\n\
            thermae_worker_containers{pool=\"default\",state=\"idle\"} 4\n\
            thermae_worker_containers_bound{pool=\"default\"} 2\n";
        assert_eq!(containers(metrics).unwrap(), (5, 1));
        assert!(containers("not ready\n").is_err());
    }
}
