//! Rows about the Python package: prints through it, in turns with the same prints on an embedded fleet.

use anyhow::Result;
use serde_json::Value;

use super::{load, of_prints, step};
use crate::paths;

/// The most that a print through `Sandbox` may take, as a multiple of the same print without the package.
const SLOWEST: f64 = 1.5;

/// The least rate of prints through `Sandbox`, as a share of the rate without the package.
const LEAST_RATE: f64 = 0.8;

/// Prints through `Sandbox` and `AsyncSandbox`, and those beside them.
pub(super) fn rows(python: &str, quick: bool) -> Result<Vec<Value>> {
    step("Python package, in turns with the embedded fleet");
    let package = paths::root().join("sdk/python").display().to_string();
    let less: &[&str] = if quick { &["--jobs", "60", "--rate-jobs", "400"] } else { &[] };
    load(&[&["--python", python, "sdk", "--package", &package], less].concat())
}

/// Prints how the package compares, and with `Sandbox` also whether that reaches the bars.
pub(super) fn print_ratios(rows: &[Value]) {
    let figure = |on: &str, key: &str| of_prints(rows, on, key);
    let ratio = |on: &str, key: &str| Some(figure(on, key)? / figure("beside_sdk", key)?);
    for on in ["sdk", "sdk_async"] {
        let (Some(slower), Some(rate)) = (ratio(on, "p50_ms"), ratio(on, "jobs_per_s")) else { continue };
        println!("print, p50: {on} / embedded, in turns: {slower:.2} x{}", verdict(on, slower <= SLOWEST, SLOWEST));
        println!(
            "print, jobs/s: {on} / embedded, in turns: {rate:.2} x{}",
            verdict(on, rate >= LEAST_RATE, LEAST_RATE)
        );
    }
}

/// Whether a bar is reached; nothing if there is none.
fn verdict(on: &str, reached: bool, bar: f64) -> String {
    match (on, reached) {
        ("sdk", true) => format!(" (bar {bar}: reached)"),
        ("sdk", false) => format!(" (bar {bar}: NOT reached)"),
        _ => String::new(),
    }
}
