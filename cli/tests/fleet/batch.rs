//! `thermae batch` on the real fleet: every job gets one result, even if a worker is killed during the batch.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::Test;
use crate::fleet::Fleet;
use crate::servers::binary;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("batch::every_job_succeeds_on_two_workers", all_succeed),
    ("batch::a_killed_worker_costs_nothing_with_three_attempts", killed_with_attempts),
    ("batch::a_killed_worker_loses_only_what_it_had_started", killed_by_default),
];

/// The HumanEval jobs if they are in a folder beside the project, otherwise as many simple programs.
fn jobs(dir: &Path) -> Result<(PathBuf, usize)> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/humaneval.jobs.jsonl");
    if beside.is_file() {
        return Ok((beside, 164));
    }
    let lines: String = (0..164)
        .map(|n| format!("{{\"id\": \"own/{n}\", \"language\": \"python\", \"code\": \"print('ok own/{n}', sum(range({n})))\"}}\n"))
        .collect();
    let file = dir.join("jobs.jsonl");
    std::fs::write(&file, lines)?;
    Ok((file, 164))
}

fn batch(fleet: &Fleet, jobs: &Path, out: &Path, more: &[&str]) -> Result<Child> {
    Ok(Command::new(binary("thermae")?)
        .arg("batch")
        .arg(jobs)
        .arg("--out")
        .arg(out)
        .args(["--amqp", &fleet.servers.acme])
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?)
}

fn results(out: &Path) -> Result<BTreeMap<String, Value>> {
    let mut results = BTreeMap::new();
    for line in BufReader::new(std::fs::File::open(out)?).lines() {
        let line: Value = serde_json::from_str(&line?)?;
        let id = line["id"].as_str().context("a result without an id")?.to_owned();
        ensure!(results.insert(id.clone(), line).is_none(), "{id} has two results");
    }
    Ok(results)
}

fn statuses(results: &BTreeMap<String, Value>) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    results.values().for_each(|line| *counts.entry(line["status"].as_str().unwrap_or_default()).or_default() += 1);
    counts
}

fn all_succeed(fleet: &Fleet) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let ((jobs, count), out) = (jobs(dir.path())?, dir.path().join("results.jsonl"));
    let output = batch(fleet, &jobs, &out, &[])?.wait_with_output()?;
    ensure!(output.status.success(), "{}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    let results = results(&out)?;
    ensure!(statuses(&results) == BTreeMap::from([("succeeded", count)]), "{:?}", statuses(&results));
    let printed = |(id, line): (&String, &Value)| {
        line["stdout"].as_str().is_some_and(|text| text.starts_with(&format!("ok {id}")))
    };
    ensure!(results.iter().all(printed), "a result belongs to another job");
    Ok(())
}

/// Runs a batch, and kills a worker once there are 50 results.
fn killed(fleet: &Fleet, more: &[&str]) -> Result<(BTreeMap<String, Value>, usize)> {
    let dir = tempfile::tempdir()?;
    let ((jobs, count), out) = (jobs(dir.path())?, dir.path().join("results.jsonl"));
    let mut child = batch(fleet, &jobs, &out, more)?;
    let begun = Instant::now();
    let lines = || std::fs::read(&out).map_or(0, |bytes| bytes.iter().filter(|b| **b == b'\n').count());
    while lines() < 50 {
        ensure!(child.try_wait()?.is_none() && begun.elapsed() < Duration::from_secs(60), "no 50 results came");
        std::thread::sleep(Duration::from_millis(2));
    }
    fleet.kill("worker")?;
    let output = child.wait_with_output()?;
    fleet.add_worker()?;
    let results = results(&out)?;
    ensure!(results.len() == count, "{} results\n{}", results.len(), String::from_utf8_lossy(&output.stderr));
    Ok((results, count))
}

fn killed_with_attempts(fleet: &Fleet) -> Result<()> {
    let (results, count) = killed(fleet, &["--max-attempts", "3"])?;
    ensure!(statuses(&results) == BTreeMap::from([("succeeded", count)]), "{:?}", statuses(&results));
    Ok(())
}

fn killed_by_default(fleet: &Fleet) -> Result<()> {
    let (results, count) = killed(fleet, &[])?;
    let counts = statuses(&results);
    let lost = counts.get("lost").copied().unwrap_or(0);
    // A worker has started as many jobs as it has slots, which are two here.
    ensure!(counts.get("succeeded") == Some(&(count - lost)) && lost <= 2, "{counts:?}");
    for line in results.values().filter(|line| line["status"] == "lost") {
        ensure!(line["error"]["code"] == "worker_lost" && line["error"]["safe_to_retry"] == false, "{line}");
    }
    Ok(())
}
