//! `cargo xtask bench`: measures the fleets, and what people use without a fleet, side by side in one run.
//!
//! The method, which docs/performance.md describes:
//! - Every server runs on this machine, with the shipped defaults.
//! - Percentiles are measured with one job in flight, from submit to result, over at least 500 jobs after a warm-up.
//! - Rates are measured with four jobs in flight, for ten seconds.
//! - Canaries between the timed jobs prove that each sandbox was fresh.
//! - Open-loop rows have jobs that arrive at their own pace.
//! - The floor, which no fleet can pass, is measured beside the fleets.
//!
//! `thermae-loadtests` makes the loads. This module starts the processes and gathers the rows.

mod gateway;
mod open;
mod ready;
pub(crate) mod redis;
mod sdk;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::fleet::{self, Containers, Fleet};
use crate::services::{self, Service, set::Set};
use crate::{
    images::{self, engine::Engine},
    paths, supervise,
};

/// How much is measured.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Options {
    /// Run a tenth of the jobs, and measure rates for a tenth of the time. This shows that everything works, not how
    /// fast it is.
    #[arg(long)]
    quick: bool,
}

/// Measures everything and writes `target/bench/latest.json`. If it fails on the way, it writes what it has measured to
/// `target/bench/partial.json` instead.
pub(crate) fn run(options: Options) -> Result<()> {
    supervise::begin()?;
    fleet::build()?;
    let dir = paths::root().join("target/bench");
    fs::create_dir_all(&dir)?;
    let python = venv(&dir)?;
    let mut set = Set::open("bench")?;
    // An earlier run leaves its servers behind if it is killed.
    set.stop()?;
    let weights = weigh(&python)?;
    let (mut rows, mut redis) = (Vec::new(), Value::Null);
    let measured =
        set.start(&Service::FLEET).and_then(|()| measure(&set, &dir, &python, options, &mut rows, &mut redis));
    let stopped = set.stop();
    let report = json!({
        "commit": commit()?, "machine": machine(), "quick": options.quick, "rows": rows, "weights": weights,
        "redis": redis,
    });
    let file = keep(&dir, report, measured.as_ref().err())?;
    print_table(&rows);
    print_ratios(&rows);
    for weight in &weights {
        let (what, mib) = (weight["what"].as_str().unwrap_or_default(), number(weight, "mib").unwrap_or_default());
        println!("{what}, idle: {mib:.1} MiB");
    }
    print_cpu(&rows);
    if !redis.is_null() {
        println!("{}", redis::line(&redis));
    }
    println!("written to {}", file.display());
    measured.and(stopped)
}

/// Writes the report. The report of a failed run has the rows that were measured and the error, and it doesn't replace
/// the last complete report.
fn keep(dir: &Path, mut report: Value, failed: Option<&anyhow::Error>) -> Result<PathBuf> {
    let file = dir.join(if failed.is_some() { "partial.json" } else { "latest.json" });
    if let Some(error) = failed {
        report["failed"] = json!(format!("{error:#}"));
    }
    fs::write(&file, serde_json::to_vec_pretty(&report)?)?;
    Ok(file)
}

/// Weighs idle containers. Run this before any server runs: the memory counted is each process's share of what it maps,
/// and a server that maps the same interpreter's file would take a part of that share.
fn weigh(python: &Path) -> Result<Vec<Value>> {
    step("idle containers");
    load(&["--python", &python.display().to_string(), "weight"])
}

/// Adds rows as they are measured, so that a failed run keeps them, and sets `redis` to a job's size in Redis.
fn measure(
    set: &Set,
    dir: &Path,
    python: &Path,
    options: Options,
    rows: &mut Vec<Value>,
    redis: &mut Value,
) -> Result<()> {
    let facts: std::collections::BTreeMap<_, _> = set.environment()?.into_iter().collect();
    let fact = |name: &str| facts.get(name).cloned().with_context(|| format!("the services gave no {name}"));
    let (docker, image) = (fact("THERMAE_TEST_DOCKER")?, images::PYTHON);
    images::python::ensure(&Engine { socket: set.docker_socket()? }, &images::python::build_runner()?)?;
    let (jobs, seconds) = if options.quick { ("50", "1") } else { ("500", "10") };
    let (slow, seconds_slow) = if options.quick { ("5", "1") } else { ("50", "10") };
    let cases =
        ["--case", "print", "--case", "pandas", "--case", "tools10", "--case", "session", "--case", "tool-call"];
    let closed = |amqp: &[&str], more: &[&str]| {
        let limits = ["closed", "--jobs", jobs, "--seconds", seconds];
        load(&[amqp, &limits, &cases, more].concat())
    };
    let alone = ["--case", "print", "--case", "pandas", "--seconds", seconds_slow, "--samples"];

    let interpreter = python.display().to_string();
    rows.extend(ready::first(&["--python", &interpreter], "embedded", options.quick)?);
    step("embedded fleet");
    rows.extend(closed(&["--python", &interpreter], &[])?);
    rows.extend(open::rows(&["--python", &interpreter], rows, "embedded", options.quick)?);
    rows.extend(ready::tenants(&["--python", &interpreter], "embedded", options.quick)?);
    let starts = if options.quick { "5" } else { "50" };
    rows.extend(load(&["--python", &interpreter, "start", "--samples", starts])?);
    rows.extend(sdk::rows(&interpreter, options.quick)?);
    step("floor");
    rows.extend(floor(&paths::release(), &interpreter, [jobs, jobs], seconds)?);
    step("subprocess");
    rows.extend(load(&[&["baseline", "--on", "subprocess", "--python", &interpreter], &alone[..], &["200"]].concat())?);

    step("bare RabbitMQ");
    rows.extend(load(&["--amqp", &fact("THERMAE_TEST_AMQP")?, "rpc", "--samples", "2000"])?);
    step("real fleet");
    let (amqp, records) = (fact("THERMAE_TEST_AMQP")?, fact("THERMAE_TEST_REDIS")?);
    let containers = Containers::Docker { socket: &docker, image };
    let fleet = Fleet::start(dir, &amqp, &records, containers)?;
    let tenant = fact("THERMAE_TEST_AMQP_TENANT")?;
    rows.extend(ready::first(&["--amqp", &tenant], "fleet", options.quick)?);
    let server = |service: Service| set.get(service).context("a server is gone");
    let servers = [("rabbitmq", server(Service::Rabbitmq)?.main.pid), ("redis", server(Service::Redis)?.main.pid)];
    let parts = redis::parts(&fleet, &servers, &services::docker::exec_root(set.dir()));
    rows.extend(closed(&["--amqp", &tenant], &parts.iter().map(String::as_str).collect::<Vec<_>>())?);
    rows.extend(open::rows(&["--amqp", &tenant], rows, "fleet", options.quick)?);
    rows.extend(ready::tenants(&["--amqp", &amqp], "fleet", options.quick)?);
    rows.extend(gateway::rows(&tenant, options.quick)?);
    drop(fleet);
    let port = server(Service::Redis)?.fact("port")?.parse()?;
    let start = |worker: &str| Fleet::start_with(dir, &amqp, &records, containers, worker);
    *redis = redis::weigh(start, &tenant, port, options.quick)?;

    step("docker run per job");
    rows.extend(load(
        &[&["baseline", "--on", "docker-run", "--docker", &docker, "--of", image], &alone[..], &[slow]].concat(),
    )?);
    step("docker exec");
    let container = Parked::start(&docker, image)?;
    let of = ["baseline", "--on", "docker-exec", "--docker", &docker, "--of", &container.id];
    rows.extend(load(&[&of, &alone[..], &[slow]].concat())?);
    Ok(())
}

fn step(what: &str) {
    eprintln!("bench: {what}");
}

/// Runs the load generator and gives its rows.
fn load(args: &[&str]) -> Result<Vec<Value>> {
    load_from(&paths::release(), args)
}

/// Runs the load generator in the folder `release` and gives its rows.
pub(crate) fn load_from(release: &Path, args: &[&str]) -> Result<Vec<Value>> {
    serde_json::from_slice(&loadtests(release, args)?).context("read the rows")
}

/// The rows of the floor, measured by the load generator in the folder `release`: `jobs` programs, `quick` forks and
/// session programs, and rates over `seconds`.
pub(crate) fn floor(release: &Path, python: &str, [jobs, quick]: [&str; 2], seconds: &str) -> Result<Vec<Value>> {
    let mut rows = Vec::new();
    for (jobs, cases) in [
        (quick, &["--case", "fork"][..]),
        (jobs, &["--case", "print", "--case", "pandas"]),
        // A session's program takes a quarter of a millisecond. Without a longer warm-up, all of them would run while
        // the container still makes its first sandboxes.
        (quick, &["--case", "session", "--warm-up", "1000"]),
    ] {
        let size = ["--python", python, "floor", "--jobs", jobs, "--seconds", seconds];
        rows.extend(load_from(release, &[&size, cases].concat())?);
    }
    Ok(rows)
}

/// Runs the load generator in the folder `release` and gives what it printed.
fn loadtests(release: &Path, args: &[&str]) -> Result<Vec<u8>> {
    let program = release.join("thermae-loadtests");
    let output = supervise::output(Command::new(&program).arg("--json").args(args))?;
    ensure!(output.status.success(), "{} {}: {}", program.display(), args.join(" "), output.status);
    Ok(output.stdout)
}

/// An idle container for `docker exec`. It is removed on drop.
struct Parked {
    docker: String,
    id: String,
}

impl Parked {
    fn start(socket: &str, image: &str) -> Result<Self> {
        let docker = format!("unix://{socket}");
        let args = ["run", "-d", "--init", "--network", "none", "--entrypoint", "sleep", image, "infinity"];
        let output = Command::new("docker").args(["--host", &docker]).args(args).output()?;
        ensure!(output.status.success(), "docker run: {}", String::from_utf8_lossy(&output.stderr));
        Ok(Self { docker, id: String::from_utf8(output.stdout)?.trim().to_owned() })
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        let _ = Command::new("docker").args(["--host", &self.docker, "rm", "-f", &self.id]).output();
    }
}

/// A virtualenv with pandas, for the embedded fleet and the subprocess. It is made once and kept.
pub(crate) fn venv(dir: &Path) -> Result<PathBuf> {
    let venv = dir.join("venv");
    let python = venv.join("bin/python3");
    if !venv.join("ready").is_file() {
        step("a virtualenv with pandas");
        let run = |command: &mut Command| {
            let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status().context("start python3")?;
            ensure!(status.success(), "{command:?}: {status}");
            Ok(())
        };
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "numpy", "pandas"]))?;
        fs::write(venv.join("ready"), "")?;
    }
    Ok(python)
}

fn commit() -> Result<String> {
    let git = |args: &[&str]| Command::new("git").args(args).current_dir(paths::root()).output();
    let head = String::from_utf8(git(&["rev-parse", "HEAD"])?.stdout)?.trim().to_owned();
    let dirty = !git(&["status", "--porcelain"])?.stdout.is_empty();
    Ok(if dirty { head + "-dirty" } else { head })
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{cores} cores, {}, Linux {}", cpu.trim_start_matches(['\t', ' ', ':']), kernel.trim())
}

fn number(row: &Value, key: &str) -> Option<f64> {
    row[key].as_f64()
}

/// A figure of the prints on one side.
fn of_prints(rows: &[Value], on: &str, key: &str) -> Option<f64> {
    let row = rows.iter().find(|row| row["case"] == "print" && row["on"] == on)?;
    number(row, key).filter(|figure| *figure > 0.0)
}

fn print_table(rows: &[Value]) {
    println!("{:<13} {:<11} {:>9} {:>9} {:>9} {:>9}", "case", "on", "p50 ms", "p95 ms", "p99 ms", "jobs/s");
    for row in rows {
        let cell = |key| number(row, key).map_or_else(|| "-".to_owned(), |x| format!("{x:.3}"));
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        println!(
            "{:<13} {:<11} {:>9} {:>9} {:>9} {:>9}",
            text("case"),
            text("on"),
            cell("p50_ms"),
            cell("p95_ms"),
            cell("p99_ms"),
            cell("jobs_per_s")
        );
    }
}

/// Prints the processor time per job, by part, of the rows that have it.
fn print_cpu(rows: &[Value]) {
    for row in rows {
        let (Some(all), Some(parts)) = (number(row, "cpu_ms_per_job"), row["cpu_ms_by_part"].as_object()) else {
            continue;
        };
        let parts: Vec<_> = parts.iter().map(|(part, ms)| format!("{part} {ms}")).collect();
        let text = |key: &str| row[key].as_str().unwrap_or_default();
        println!("{} on {}, processor time per job: {all:.3} ms ({})", text("case"), text("on"), parts.join(", "));
    }
}

/// Prints ratios: each fleet to what people use without one, and the embedded fleet to its floor.
fn print_ratios(rows: &[Value]) {
    let p50 = |case: &str, on: &str| {
        let row = rows.iter().find(|row| row["case"] == case && row["on"] == on)?;
        number(row, "p50_ms").filter(|ms| *ms > 0.0)
    };
    let ratio = |label: &str, slow: Option<f64>, fast: Option<f64>| {
        if let (Some(slow), Some(fast)) = (slow, fast) {
            println!("{label}: {:.1} x", slow / fast);
        }
    };
    for on in ["embedded", "fleet"] {
        for base in ["docker_run", "docker_exec", "subprocess"] {
            for case in ["print", "pandas"] {
                ratio(&format!("{case}: {base} / {on}"), p50(case, base), p50(case, on));
            }
        }
    }
    for case in ["print", "pandas", "session"] {
        ratio(&format!("{case}: embedded / floor"), p50(case, "embedded"), p50(case, "floor"));
    }
    ratio("sandbox (print on the floor) / bare fork into namespaces", p50("print", "floor"), p50("fork", "floor"));
    ratio("tool call / bare RabbitMQ request and reply", p50("tool_call", "fleet"), p50("rpc", "rabbitmq"));
    ready::print_ratios(rows);
    sdk::print_ratios(rows);
    gateway::print_ratios(rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_fails_keeps_its_rows_beside_the_last_whole_report() {
        let dir = std::env::temp_dir().join(format!("thermae-bench-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let report = |n: u32| json!({ "rows": [{ "case": "print", "p50_ms": n }] });
        let whole = keep(&dir, report(1), None).unwrap();
        let partial = keep(&dir, report(2), Some(&anyhow::anyhow!("no broker"))).unwrap();
        let read = |file: &Path| serde_json::from_slice::<Value>(&fs::read(file).unwrap()).unwrap();
        assert_eq!(read(&whole), report(1));
        let partial = read(&partial);
        assert_eq!((&partial["rows"][0]["p50_ms"], &partial["failed"]), (&json!(2), &json!("no broker")));
        fs::remove_dir_all(&dir).unwrap();
    }
}
