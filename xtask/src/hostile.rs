//! `cargo xtask hostile`: measures how much a hostile tenant slows down another one, the victim.
//!
//! No job of the victim may be lost. The 95th percentile of its jobs beside the hostile tenant is compared with the one
//! beside a benign tenant that keeps as many slots busy. Each round has a RabbitMQ, a Redis, a scheduler and a worker
//! of its own, so that what the hostile tenant leaves in queues can't burden the next round.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::fleet::{self, Containers, Fleet};
use crate::images::{self, engine::Engine};
use crate::services::{Service, set::Set};
use crate::stats::median;
use crate::test::watchdog::Watchdog;
use crate::{paths, supervise};

/// Highest allowed ratio of the 95th percentile beside the hostile tenant to the one beside a benign tenant.
const BAR: f64 = 3.0;

/// How much, and on what.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// Number of rounds on each backend. Their medians count.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Time to measure each phase of a round, in seconds.
    #[arg(long, default_value_t = 25)]
    seconds: u32,
    /// Backends to measure (comma-separated); by default, both.
    #[arg(long, value_delimiter = ',', default_values_t = [Backend::Docker, Backend::Native], hide_default_value = true)]
    only: Vec<Backend>,
    /// Let the hostile tenant leave out these means or kinds of jobs (comma-separated), to find out which does harm.
    ///
    /// `thermae-loadtests hostile --help` lists the groups of means.
    #[arg(long, value_delimiter = ',', value_name = "MEANS")]
    without: Vec<String>,
    /// Run one short round with native containers, as a test.
    ///
    /// No job may be lost. The times are only printed. The binaries must already be built.
    #[arg(long)]
    quick: bool,
}

/// What makes the containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Backend {
    /// Docker containers.
    Docker,
    /// Native containers, as root.
    Native,
}

impl std::fmt::Display for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Docker => "docker",
            Self::Native => "native",
        })
    }
}

/// Measures, and writes the report to `latest.json`. Fails if a job is lost, or if a median ratio is above `BAR`.
pub(crate) fn run(options: &Options) -> Result<()> {
    supervise::begin()?;
    let mut options = options.clone();
    if options.quick {
        options = Options { rounds: 1, seconds: 6, only: vec![Backend::Native], ..options };
    } else {
        fleet::build()?;
    }
    let name = if options.quick { "hostile-quick" } else { "hostile" };
    let dir = paths::root().join("target").join(name);
    fs::create_dir_all(&dir)?;
    let mut engine = Set::open(&format!("{name}-engine"))?;
    // An earlier run leaves its servers behind if it is killed.
    engine.stop()?;
    let before = Watchdog::before();
    let measured = measure(&options, name, &dir, &mut engine);
    engine.stop()?;
    // A test run has a watchdog of its own, and runs other steps at the same time.
    let left = if options.quick { Vec::new() } else { before.after()? };
    let verdicts = measured?;
    ensure!(left.is_empty(), "left behind: {}", left.join("; "));
    let file = dir.join("latest.json");
    fs::write(&file, serde_json::to_vec_pretty(&verdicts)?)?;
    println!("written to {}", file.display());
    for (backend, verdict) in &verdicts {
        ensure!(verdict["lost"] == 0, "{backend}: jobs of the victim's were lost");
        let ratio = verdict["hostile_to_benign"].as_f64().context("no ratio")?;
        ensure!(
            options.quick || ratio <= BAR,
            "{backend}: {ratio:.2} times the benign tenant's, and {BAR} are the most"
        );
    }
    Ok(())
}

fn measure(options: &Options, name: &str, dir: &Path, engine: &mut Set) -> Result<BTreeMap<String, Value>> {
    let mut verdicts = BTreeMap::new();
    for backend in &options.only {
        if *backend == Backend::Docker {
            engine.start(&[Service::Docker])?;
            let made = Engine { socket: engine.docker_socket()? };
            images::python::ensure(&made, &images::python::build_runner()?)?;
        }
        let mut rounds = Vec::new();
        for n in 1..=options.rounds {
            println!("{backend}, round {n} of {}", options.rounds);
            settle_disk()?;
            let mut set = Set::open(name)?;
            set.stop()?;
            let round = set
                .start(&[Service::Rabbitmq, Service::Redis])
                .and_then(|()| round(options, *backend, &set, engine, dir));
            set.stop()?;
            rounds.push(round?);
        }
        verdicts.insert(backend.to_string(), verdict(*backend, &rounds));
    }
    Ok(verdicts)
}

/// Makes the kernel write to disk what builds, images and earlier rounds left in memory. Otherwise RabbitMQ's log would
/// wait for these writes in whichever phase the kernel does them.
fn settle_disk() -> Result<()> {
    ensure!(Command::new("sync").status().context("start sync")?.success(), "sync failed");
    Ok(())
}

/// Runs one round on new servers, prints its figures and gives them.
fn round(options: &Options, backend: Backend, set: &Set, engine: &Set, dir: &Path) -> Result<Value> {
    let facts: BTreeMap<_, _> = set.environment()?.into_iter().collect();
    let fact = |name: &str| facts.get(name).map(String::as_str).with_context(|| format!("the services gave no {name}"));
    let socket: PathBuf = match backend {
        Backend::Docker => engine.docker_socket()?,
        Backend::Native => PathBuf::new(),
    };
    let socket = socket.display().to_string();
    let containers = match backend {
        Backend::Docker => Containers::Docker { socket: &socket, image: images::PYTHON },
        Backend::Native => Containers::Native,
    };
    let fleet = Fleet::start(dir, fact("THERMAE_TEST_AMQP")?, fact("THERMAE_TEST_REDIS")?, containers)?;
    let mut load = Command::new(paths::release().join("thermae-loadtests"));
    load.args(["--json", "hostile", "--seconds", &options.seconds.to_string()])
        .arg(format!("--without={}", options.without.join(",")))
        .env("THERMAE_AMQP", fact("THERMAE_TEST_AMQP_OTHER")?)
        .env("THERMAE_AMQP_NEIGHBOUR", fact("THERMAE_TEST_AMQP_TENANT")?)
        .env_remove("THERMAE_TENANT");
    let output = supervise::output(&mut load)?;
    drop(fleet);
    let report: Value = serde_json::from_slice(&output.stdout).context("the load gave no report")?;
    print_round(&report);
    // A short round doesn't fill queues, so some means stay unused.
    let unused = report["unused"].as_array().is_some_and(|unused| !unused.is_empty());
    ensure!(
        options.quick || !options.without.is_empty() || !unused,
        "the hostile tenant never came to {}",
        report["unused"]
    );
    Ok(report)
}

fn print_round(report: &Value) {
    for phase in ["quiet", "benign", "hostile"] {
        let of = &report[phase];
        println!(
            "  {phase:<8} {:>5} jobs  p50 {:>8.1} ms  p95 {:>8.1} ms  max {:>8.1} ms  p95 by kind {} by stage {}",
            of["jobs"],
            number(&of["p50_ms"]),
            number(&of["p95_ms"]),
            number(&of["max_ms"]),
            of["kinds"],
            of["stages"]
        );
    }
    for slow in report["hostile"]["slowest"].as_array().into_iter().flatten() {
        println!("  slow: {slow}");
    }
    println!("  means: {}", report["hostile"]["neighbour"]);
    for lost in report["lost"].as_array().into_iter().flatten() {
        println!("  lost: {lost}");
    }
}

/// Prints the medians over all rounds, and gives them with the rounds.
fn verdict(backend: Backend, rounds: &[Value]) -> Value {
    let of = |phase: &str, key: &str| median(rounds.iter().map(|round| number(&round[phase][key])).collect());
    let lost: usize = rounds.iter().map(|round| round["lost"].as_array().map_or(0, Vec::len)).sum();
    let p95 = ["quiet", "benign", "hostile"].map(|phase| of(phase, "p95_ms"));
    let [quiet, benign, hostile] = p95;
    for (phase, p95) in ["quiet", "benign", "hostile"].into_iter().zip(p95) {
        println!(
            "{backend}, median of {}: {phase:<8} p50 {:.1} ms, p95 {p95:.1} ms",
            rounds.len(),
            of(phase, "p50_ms")
        );
    }
    println!(
        "{backend}: hostile / benign {:.2}, hostile / quiet {:.2}, lost {lost}",
        hostile / benign,
        hostile / quiet
    );
    json!({
        "rounds": rounds, "lost": lost, "hostile_to_benign": hostile / benign, "hostile_to_quiet": hostile / quiet,
        "p95_ms": { "quiet": quiet, "benign": benign, "hostile": hostile },
    })
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_of_medians() {
        let round = |hostile: f64| {
            let phase = |p95: f64| json!({ "p50_ms": 1.0, "p95_ms": p95 });
            json!({ "quiet": phase(5.0), "benign": phase(10.0), "hostile": phase(hostile), "lost": [] })
        };
        let verdict = verdict(Backend::Native, &[round(900.0), round(20.0), round(10.0)]);
        assert_eq!((&verdict["hostile_to_benign"], &verdict["hostile_to_quiet"]), (&json!(2.0), &json!(4.0)));
        assert_eq!(verdict["lost"], 0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
