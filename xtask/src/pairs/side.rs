//! One of the two checkouts that [`super`] compares: its binaries, its servers and its fleet.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::fleet::{self, Containers, Fleet};
use crate::images::{self, engine::Engine};
use crate::services::{self, Service, set::Set};
use crate::{bench, paths};

/// Cases of the closed loop whose jobs take milliseconds.
const CASES: [&str; 6] = ["--case", "print", "--case", "pandas", "--case", "tools10"];

/// Cases whose jobs take less. They need more jobs: a few would be over while the fleet still finishes earlier work.
const QUICK_CASES: [&str; 4] = ["--case", "session", "--case", "tool-call"];

/// How many jobs of a quick case are timed for each job of another case.
const QUICK: u32 = 20;

/// Number of timed starts of the command line in each measurement.
const STARTS: &str = "10";

/// A figure that is compared. A higher value is always slower.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Figure {
    case: String,
    on: String,
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// Median, in milliseconds.
    P50,
    /// The reciprocal of the rate, in milliseconds.
    PerJob,
    /// Processor time, in milliseconds.
    CpuPerJob,
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            What::P50 => "p50 ms",
            What::PerJob => "ms per job",
            What::CpuPerJob => "CPU ms per job",
        };
        write!(f, "{} on {}, {what}", self.case, self.on)
    }
}

/// One checkout, with the servers and the fleet that run its binaries.
pub(super) struct Side {
    name: &'static str,
    release: PathBuf,
    runner: PathBuf,
    image: String,
    set: Set,
    fleet: Option<Fleet>,
}

impl Side {
    /// Builds what the checkout lacks, and stops the servers of an earlier run.
    pub(super) fn open(name: &'static str, root: PathBuf) -> Result<Self> {
        fleet::build_in(&root)?;
        let runner = images::python::build_runner_in(&root)?;
        let mut set = Set::open(&format!("pairs-{name}"))?;
        // An earlier run leaves its servers behind if it is killed.
        set.stop()?;
        let (release, image) = (paths::target_in(&root).join("release"), format!("thermae/python:pairs-{name}"));
        Ok(Self { name, release, runner, image, set, fleet: None })
    }

    /// Makes this side's image in the engine that both sides share.
    pub(super) fn make_image(&self, engine: &Set) -> Result<()> {
        images::python::ensure_as(&self.image, &Engine { socket: engine.docker_socket()? }, &self.runner)
    }

    /// Starts this side's servers, scheduler and worker.
    fn start(&mut self, engine: &Set, dir: &Path) -> Result<()> {
        self.set.start(&[Service::Rabbitmq, Service::Redis])?;
        let socket = engine.docker_socket()?;
        let dir = dir.join(self.name);
        std::fs::create_dir_all(&dir)?;
        let (amqp, redis) = (self.fact("THERMAE_TEST_AMQP")?, self.fact("THERMAE_TEST_REDIS")?);
        let containers = Containers::Docker { socket: &socket.display().to_string(), image: &self.image };
        self.fleet = Some(Fleet::start_from(&self.release, &dir, &amqp, &redis, containers, "")?);
        Ok(())
    }

    pub(super) fn stop(&mut self) -> Result<()> {
        self.fleet = None;
        self.set.stop()
    }

    fn fact(&self, name: &str) -> Result<String> {
        let facts = self.set.environment()?;
        let found = facts.into_iter().find(|(fact, _)| *fact == name);
        Ok(found.with_context(|| format!("the services gave no {name}"))?.1)
    }

    /// Measures every figure once, with new servers and a new fleet.
    pub(super) fn measure(
        &mut self,
        engine: &Set,
        dir: &Path,
        python: &str,
        jobs: u32,
        seconds: u32,
    ) -> Result<BTreeMap<Figure, f64>> {
        self.start(engine, dir)?;
        let figures = self.load(engine, python, jobs, seconds);
        self.stop()?;
        figures
    }

    fn load(&self, engine: &Set, python: &str, jobs: u32, seconds: u32) -> Result<BTreeMap<Figure, f64>> {
        let (quick, jobs, seconds) = (jobs.saturating_mul(QUICK).to_string(), jobs.to_string(), seconds.to_string());
        let closed = |target: &[&str], parts: &[&str]| {
            let mut rows = Vec::new();
            for (jobs, cases) in [(&jobs, &CASES[..]), (&quick, &QUICK_CASES)] {
                let size = ["closed", "--jobs", jobs, "--seconds", &seconds];
                rows.extend(bench::load_from(&self.release, &[target, &size, cases, parts].concat())?);
            }
            anyhow::Ok(rows)
        };
        let mut rows = closed(&["--python", python], &[])?;
        // This checkout's load generator measures both sides: older ones don't pause between two starts.
        let program = self.release.join("thermae").display().to_string();
        let start = ["--python", python, "start", "--samples", STARTS, "--program", &program];
        rows.extend(bench::load_from(&paths::release(), &start)?);
        rows.extend(bench::floor(&self.release, python, [&jobs, &quick], &seconds)?);
        let parts = self.parts(engine)?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let amqp = self.fact("THERMAE_TEST_AMQP_TENANT")?;
        self.settle(&amqp, &jobs, &seconds)?;
        rows.extend(closed(&["--amqp", &amqp], &parts)?);
        Ok(rows.iter().flat_map(figures).collect())
    }

    /// Waits until the fleet has replaced the containers that a tenant's first jobs bound to the tenant. Their number
    /// and their time differ between versions, and would slow down whichever row runs meanwhile.
    fn settle(&self, amqp: &str, jobs: &str, seconds: &str) -> Result<()> {
        let print = ["--amqp", amqp, "closed", "--jobs", jobs, "--seconds", seconds, "--case", "print"];
        bench::load_from(&self.release, &print)?;
        self.fleet.as_ref().context("the fleet is not started")?.settle()
    }

    /// Arguments that name the processes whose processor time is measured; empty if this side's load generator has no
    /// `--cpu`.
    fn parts(&self, engine: &Set) -> Result<Vec<String>> {
        let help = Command::new(self.release.join("thermae-loadtests"))
            .args(["closed", "--help"])
            .output()
            .context("start the load")?;
        if !String::from_utf8_lossy(&help.stdout).contains("--cpu") {
            return Ok(Vec::new());
        }
        let fleet = self.fleet.as_ref().context("the fleet is not started")?;
        let server = |service: Service| self.set.get(service).context("a server is gone");
        let servers = [("rabbitmq", server(Service::Rabbitmq)?.main.pid), ("redis", server(Service::Redis)?.main.pid)];
        Ok(bench::redis::parts(fleet, &servers, &services::docker::exec_root(engine.dir())))
    }
}

/// The figures in one row of the load generator.
fn figures(row: &Value) -> Vec<(Figure, f64)> {
    let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let per_job = row["jobs_per_s"].as_f64().filter(|rate| *rate > 0.0).map(|rate| 1000.0 / rate);
    let found = [
        (What::P50, row["p50_ms"].as_f64()),
        (What::PerJob, per_job),
        (What::CpuPerJob, row["cpu_ms_per_job"].as_f64()),
    ];
    let figure = |what| Figure { case: text("case"), on: text("on"), what };
    found.into_iter().filter_map(|(what, value)| Some((figure(what), value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_slower_in_every_figure() {
        let row = serde_json::json!({ "case": "print", "on": "fleet", "p50_ms": 4.0, "jobs_per_s": 200.0, "cpu_ms_per_job": 9.5 });
        let figures: Vec<_> = figures(&row).into_iter().map(|(figure, value)| (figure.to_string(), value)).collect();
        let of = |what: &str, value| (format!("print on fleet, {what}"), value);
        assert_eq!(figures, [of("p50 ms", 4.0), of("ms per job", 5.0), of("CPU ms per job", 9.5)]);
        let row = serde_json::json!({ "case": "session", "on": "fleet", "p50_ms": 4.0, "jobs_per_s": null });
        assert_eq!(super::figures(&row).len(), 1);
    }
}
