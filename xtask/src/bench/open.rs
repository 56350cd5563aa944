//! Open-loop rows: prints that arrive at their own pace, whether or not earlier ones were answered.
//!
//! A closed loop never asks more of a fleet than the fleet gives, so its latencies hide the cost of a queue. These rows
//! show that cost at a rate far from saturation, and at half of the rate that the closed loop reached in the same run
//! (the knee).

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{loadtests, number, step};
use crate::paths;

/// Jobs a second, far from saturation on any machine that runs the bench.
const LIGHT: f64 = 20.0;

/// Seconds of one row; `--quick` takes a tenth.
const SECONDS: f64 = 30.0;

/// Measures both rows of one fleet. `target` has the arguments that lead to the fleet, and `rows` must already hold the
/// row of its closed loop.
pub(super) fn rows(target: &[&str], rows: &[Value], on: &str, quick: bool) -> Result<Vec<Value>> {
    let closed = rows.iter().find(|row| row["case"] == "print" && row["on"] == on);
    let knee = closed.and_then(|row| number(row, "jobs_per_s")).context("the closed loop gave no rate")?;
    let seconds = if quick { SECONDS / 10.0 } else { SECONDS };
    [("open_20", LIGHT), ("open_half", knee / 2.0)]
        .into_iter()
        .map(|(case, rate)| {
            step(&format!("{on}, {rate:.0} prints a second"));
            row(target, case, on, rate, seconds)
        })
        .collect()
}

fn row(target: &[&str], case: &str, on: &str, rate: f64, seconds: f64) -> Result<Value> {
    let scenario = paths::root().join("loadtests/scenarios/steady.toml");
    let (scenario, rate, seconds) = (scenario.display().to_string(), format!("{rate:.1}"), seconds.to_string());
    let report =
        loadtests(&paths::release(), &[target, &["open", &scenario, "--rate", &rate, "--seconds", &seconds]].concat())?;
    let report: Value = serde_json::from_slice(&report).context("read the report of an open loop")?;
    ensure!(report["sent"].as_u64().is_some_and(|sent| sent > 0), "the open loop sent nothing");
    Ok(json!({
        "case": case, "on": on, "p50_ms": report["p50_ms"], "p95_ms": report["p95_ms"], "p99_ms": report["p99_ms"],
        "jobs_per_s": report["answered_per_s"],
    }))
}
