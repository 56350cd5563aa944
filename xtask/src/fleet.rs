//! A real fleet for measurements: release builds of the scheduler and the worker, on servers that the caller has
//! started.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::process::{ProcId, in_own_session};
use crate::services::free_port;
use crate::{cargo, http, paths};

/// Builds all programs of this checkout, optimised.
pub(crate) fn build() -> Result<()> {
    build_in(&paths::root())
}

/// Builds all programs of the checkout at `root`, optimised.
pub(crate) fn build_in(root: &Path) -> Result<()> {
    let mut command = cargo::command(&["build", "--release", "--workspace", "--bins"]);
    let status = command.current_dir(root).status().context("start cargo")?;
    ensure!(status.success(), "the build failed");
    Ok(())
}

/// What makes the worker's containers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Containers<'a> {
    /// The Docker engine at this socket, from this image.
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

/// A scheduler and a worker with the shipped defaults. Both are stopped on drop.
pub(crate) struct Fleet {
    processes: Vec<(&'static str, Child)>,
    /// Address of the worker's health checks and metrics.
    listen: String,
}

/// A worker that has made no container for this long will make none until jobs come. It delays containers that no job
/// waits for by at most a second.
const CALM: Duration = Duration::from_secs(3);

impl Fleet {
    /// Starts both and waits until they are ready. Their configuration and logs are written to `dir`.
    pub(crate) fn start(dir: &Path, amqp: &str, redis: &str, containers: Containers<'_>) -> Result<Self> {
        Self::start_with(dir, amqp, redis, containers, "")
    }

    /// As [`Self::start`]; `worker` has more lines for the worker's configuration.
    pub(crate) fn start_with(
        dir: &Path,
        amqp: &str,
        redis: &str,
        containers: Containers<'_>,
        worker: &str,
    ) -> Result<Self> {
        Self::start_from(&paths::release(), dir, amqp, redis, containers, worker)
    }

    /// As [`Self::start_with`], with the programs in the folder `release`.
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
            let listen = format!("127.0.0.1:{}", free_port()?);
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

    /// Waits until the worker makes no more containers. The first jobs of a tenant take unbound containers, and the
    /// worker makes others in their place.
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

    /// Name and process id of each program.
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

/// How many containers a worker has, by its metrics, and how many of these it is still making.
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
