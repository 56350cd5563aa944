//! What a job costs in Redis: right after it ended, and once its outcome is forgotten and only its tombstone is left.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{load, step};
use crate::fleet::Fleet;

/// Number of jobs to weigh; `--quick` takes a tenth.
const JOBS: u32 = 1000;

/// How long this fleet keeps outcomes. It must be longer than all the jobs take, so that the first outcome is still
/// there when the last job ends.
const WINDOW: Duration = Duration::from_secs(60);

/// How much longer than `WINDOW` Redis may take to forget the outcomes.
const FORGET_TIMEOUT: Duration = Duration::from_secs(30);

/// The line of the report that `bench` prints.
pub(super) fn line(weight: &Value) -> String {
    let bytes = |key: &str| weight[key].as_f64().unwrap_or_default();
    format!(
        "Redis, bytes per job: {:.0} right after its end, {:.0} once its outcome is forgotten",
        bytes("bytes_per_job"),
        bytes("bytes_per_job_after_window")
    )
}

/// Runs prints on a fresh fleet with a short `outcome_ttl`, and gives the bytes that one job takes.
pub(super) fn weigh(start: impl FnOnce(&str) -> Result<Fleet>, amqp: &str, port: u16, quick: bool) -> Result<Value> {
    step("bytes per job in Redis");
    // Fleets before this one kept their outcomes for longer, so these stay.
    let kept = Look::at(port)?.outcomes;
    let fleet = start(&format!("outcome_ttl = \"{}s\"\n", WINDOW.as_secs()))?;
    let jobs = if quick { JOBS / 10 } else { JOBS }.to_string();
    let print = |jobs: &str| {
        let args = ["--amqp", amqp, "closed", "--case", "print", "--warm-up", "0", "--seconds", "0", "--jobs", jobs];
        load(&args).map(drop)
    };
    // The first prints load scripts and open connections, so that these don't count. Their outcomes must be gone before
    // the count begins.
    print("20")?;
    forgotten(port, kept)?;
    let before = Look::at(port)?;
    print(&jobs)?;
    let after = Look::at(port)?;
    forgotten(port, kept)?;
    let later = Look::at(port)?;
    drop(fleet);
    let jobs = after.records - before.records;
    let outcomes = after.outcomes - kept;
    ensure!(jobs > 0 && outcomes == jobs, "{jobs} records and {outcomes} outcomes: too slow?");
    let per_job = |look: &Look| (look.used - before.used) as f64 / jobs as f64;
    Ok(json!({
        "jobs": jobs, "bytes_per_job": per_job(&after).round(), "bytes_per_job_after_window": per_job(&later).round(),
    }))
}

/// Waits until Redis keeps no more than `kept` outcomes.
fn forgotten(port: u16, kept: i64) -> Result<()> {
    let begun = Instant::now();
    while Look::at(port)?.outcomes > kept {
        ensure!(begun.elapsed() < WINDOW + FORGET_TIMEOUT, "Redis does not forget outcomes");
        std::thread::sleep(Duration::from_millis(500));
    }
    Ok(())
}

/// Memory in use (bytes), and the numbers of records and outcomes in Redis.
struct Look {
    used: i64,
    records: i64,
    outcomes: i64,
}

impl Look {
    fn at(port: u16) -> Result<Self> {
        let mut redis = BufReader::new(TcpStream::connect(("127.0.0.1", port)).context("reach Redis")?);
        // Count keys first: Redis deletes expired keys when they are looked at.
        let outcomes = keys(&mut redis, "thermae:o:*")?;
        let records = keys(&mut redis, "thermae:j:*")?;
        Ok(Self { used: used_memory(&mut redis)?, records, outcomes })
    }
}

fn keys(redis: &mut BufReader<TcpStream>, pattern: &str) -> Result<i64> {
    let count = ask(redis, &format!("KEYS {pattern}"), "*")?;
    for _ in 0..count * 2 {
        redis.read_line(&mut String::new())?;
    }
    Ok(count)
}

fn used_memory(redis: &mut BufReader<TcpStream>) -> Result<i64> {
    let mut left = ask(redis, "INFO memory", "$")? + 2;
    let mut used = None;
    while left > 0 {
        let mut line = String::new();
        left -= i64::try_from(redis.read_line(&mut line)?)?;
        used = line.strip_prefix("used_memory:").map_or(used, |bytes| bytes.trim().parse().ok());
    }
    used.context("INFO tells no used_memory")
}

/// Sends an inline command. Gives the number behind `sign` in the first line of the answer.
fn ask(redis: &mut BufReader<TcpStream>, command: &str, sign: &str) -> Result<i64> {
    redis.get_mut().write_all(format!("{command}\r\n").as_bytes())?;
    let mut line = String::new();
    redis.read_line(&mut line)?;
    let number = line.strip_prefix(sign).and_then(|number| number.trim().parse().ok());
    number.with_context(|| format!("Redis answers {command:?} with {line:?}"))
}

/// The processes of a fleet and its servers, as arguments for `thermae-loadtests closed`.
pub(crate) fn parts(fleet: &Fleet, servers: &[(&str, i32)], docker: &Path) -> Vec<String> {
    let programs = fleet.pids().map(|(name, pid)| format!("{}={pid}", name.trim_start_matches("thermae-")));
    let servers = servers.iter().map(|(name, pid)| format!("{name}={pid}"));
    let docker = std::iter::once(format!("docker=@{}", docker.display()));
    programs.chain(servers).chain(docker).flat_map(|part| ["--cpu".to_owned(), part]).collect()
}
