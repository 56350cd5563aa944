//! Short runs of the scenarios in `loadtests/scenarios`: every job must be answered correctly.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::Test;
use crate::fleet::Fleet;
use crate::servers::binary;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("scenarios::what_agents_send", |fleet| run(fleet, "mixed")),
    ("scenarios::small_jobs", |fleet| run(fleet, "steady")),
];

fn run(fleet: &Fleet, name: &str) -> Result<()> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../loadtests/scenarios/{name}.toml"));
    let output = Command::new(binary("thermae-loadtests")?)
        .args(["--json", "open", "--rate", "10", "--seconds", "4"])
        .arg(&file)
        .args(["--amqp", &fleet.servers.acme])
        .stdin(Stdio::null())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).with_context(|| format!("no report: {text}"))?;
    ensure!(report["scenario"] == name && report["by_status"]["succeeded"] == report["sent"], "{text}");
    Ok(())
}
