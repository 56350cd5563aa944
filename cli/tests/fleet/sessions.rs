//! Sessions on the command line: created, listed, reset and closed. Each tenant has its own.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::Test;
use crate::fleet::Fleet;
use crate::servers::binary;

pub(crate) const TESTS: &[(&str, Test)] = &[("sessions::a_tenant_lists_resets_and_closes_its_own", life)];

/// Longer than a worker's heartbeat takes to report a session.
const LISTED_TIMEOUT: Duration = Duration::from_secs(60);

fn thermae(amqp: &str, args: &[&str]) -> Result<Output> {
    Ok(Command::new(binary("thermae")?).args(args).args(["--amqp", amqp]).stdin(Stdio::null()).output()?)
}

fn run(amqp: &str, session: &str, code: &str, more: &[&str]) -> Result<String> {
    let dir = tempfile::tempdir()?;
    let program = dir.path().join("program.py");
    std::fs::write(&program, code)?;
    let file = program.display().to_string();
    let output = thermae(amqp, &[&["run", &file, "--session", session], more].concat())?;
    ensure!(output.status.success(), "{}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn listed(amqp: &str) -> Result<Vec<String>> {
    let output = thermae(amqp, &["sessions", "list", "--json"])?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let sessions: Vec<Value> = serde_json::from_slice(&output.stdout)?;
    Ok(sessions.iter().filter_map(|s| Some(s["id"].as_str()?.to_owned())).collect())
}

/// Waits until a session is in the list (`there`), or isn't.
fn until_listed(amqp: &str, session: &str, there: bool) -> Result<()> {
    let begun = Instant::now();
    while listed(amqp)?.iter().any(|s| s == session) != there {
        ensure!(begun.elapsed() < LISTED_TIMEOUT, "{session} in the list: still not {there}");
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

fn life(fleet: &Fleet) -> Result<()> {
    let (acme, other) = (&fleet.servers.acme, &fleet.servers.globex);
    let name = format!("s-{}", uuid::Uuid::new_v4());
    run(acme, &name, "x = 1", &[])?;
    until_listed(acme, &name, true)?;
    ensure!(!listed(other)?.contains(&name), "another tenant sees it");
    let stranger = thermae(other, &["sessions", "close", &name])?;
    ensure!(stranger.status.code() == Some(1), "another tenant closes it: {stranger:?}");
    ensure!(run(acme, &name, "print(x)", &[])? == "1\n", "it is gone");
    ensure!(run(acme, &name, "print('x' in dir())\ny = 2", &["--reset-session"])? == "False\n", "not begun anew");
    ensure!(run(acme, &name, "print(y)", &[])? == "2\n", "not the new one");
    let closed = thermae(acme, &["sessions", "close", &name])?;
    ensure!(closed.status.success() && closed.stdout == format!("closed {name}\n").into_bytes(), "{closed:?}");
    until_listed(acme, &name, false)?;
    let again = thermae(acme, &["sessions", "close", &name])?;
    ensure!(again.status.code() == Some(1), "there was one to close: {again:?}");
    Ok(())
}
