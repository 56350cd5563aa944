//! Rows about containers that are ready: the first jobs after readiness, and jobs of many tenants in turn.

use anyhow::Result;
use serde_json::Value;

use super::{load, step};

/// The first jobs of a fleet that just became ready, and the same jobs later. Must be measured before anything else
/// runs on that fleet.
pub(super) fn first(target: &[&str], on: &str, quick: bool) -> Result<Vec<Value>> {
    step(&format!("{on}, the first jobs after readiness"));
    let less: &[&str] = if quick { &["--rounds", "4", "--starts", "1"] } else { &[] };
    load(&[target, &["first"], less].concat())
}

/// Prints of 50 tenants in turn. With a real fleet, the user in `target` must be allowed to speak for every tenant.
pub(super) fn tenants(target: &[&str], on: &str, quick: bool) -> Result<Vec<Value>> {
    step(&format!("{on}, 50 tenants in turn"));
    let less: &[&str] = if quick { &["--turns", "1"] } else { &[] };
    load(&[target, &["tenants"], less].concat())
}

/// Prints how much slower the first jobs are, and what it costs to change tenants.
pub(super) fn print_ratios(rows: &[Value]) {
    let figure = |case: &str, on: &str, key: &str| {
        let row = rows.iter().find(|row| row["case"] == case && row["on"] == on)?;
        super::number(row, key).filter(|ms| *ms > 0.0)
    };
    for on in ["embedded", "fleet"] {
        let pairs = [
            ("first", "first_later", "p95_ms"),
            ("tenants50", "print", "p50_ms"),
            ("tenants50_new", "print", "p50_ms"),
        ];
        for (case, base, key) in pairs {
            if let (Some(slow), Some(fast)) = (figure(case, on, key), figure(base, on, key)) {
                println!("{on}: {case} / {base}, {}: {:.1} x", key.trim_end_matches("_ms"), slow / fast);
            }
        }
    }
}
