//! Rows about the gateway: prints over HTTP, in turns with the same prints on the fleet behind it.

use anyhow::Result;
use serde_json::Value;

use super::{load, of_prints, step};

/// How much longer a print through the gateway may take, in milliseconds.
const MORE_MS: f64 = 1.0;

/// The least rate of prints through the gateway, as a share of the rate without it.
const LEAST_RATE: f64 = 0.8;

/// Prints through a gateway of the real fleet, as the tenant of this URL, and those beside them.
pub(super) fn rows(amqp: &str, quick: bool) -> Result<Vec<Value>> {
    step("gateway, in turns with the real fleet");
    let less: &[&str] = if quick { &["--jobs", "60", "--rate-jobs", "400"] } else { &[] };
    load(&[&["--amqp", amqp, "gateway"], less].concat())
}

/// Prints how the gateway compares, and whether it reaches the bars.
pub(super) fn print_ratios(rows: &[Value]) {
    let figure = |on: &str, key: &str| of_prints(rows, on, key);
    let both = |key: &str| Some((figure("gateway", key)?, figure("beside_gateway", key)?));
    let (Some((with, without)), Some((rate, plain))) = (both("p50_ms"), both("jobs_per_s")) else { return };
    let verdict = |reached: bool| if reached { "reached" } else { "NOT reached" };
    let (more, share) = (with - without, rate / plain);
    println!("print, p50: gateway - fleet, in turns: {more:.2} ms (bar {MORE_MS}: {})", verdict(more <= MORE_MS));
    println!(
        "print, jobs/s: gateway / fleet, in turns: {share:.2} x (bar {LEAST_RATE}: {})",
        verdict(share >= LEAST_RATE)
    );
}
