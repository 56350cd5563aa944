//! Gateways in front of the real fleet.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use thermae_testkit::address;

use crate::Test;
use crate::approvals::Running;
use crate::fleet::{Fleet, Process, ask};
use crate::servers::{Servers, binary};

pub(crate) const TESTS: &[(&str, Test)] =
    &[("gateway::another_gateway_finishes_the_run_of_one_that_was_killed", killed)];

const TOKEN: &str = "token-of-the-gateways";

/// Longer than any answer takes.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);

const CODE: &str = "
import asyncio
print('begun', flush=True)
print(await asyncio.gather(*(approve(n=n) for n in range(10))))
";

/// A process of `thermae serve`.
pub(crate) struct Gateway {
    pub(crate) process: Process,
    address: String,
    _dir: TempDir,
}

impl Gateway {
    pub(crate) fn start(servers: &Servers) -> Result<Self> {
        let address = address::free()?.to_string();
        let dir = tempfile::tempdir()?;
        let mut command = Command::new(binary("thermae")?);
        command.args(["serve", "--listen", &address]).env("THERMAE_TOKEN", TOKEN).env("THERMAE_AMQP", &servers.acme);
        let mut process = Process::of(command, "gateway".to_owned(), address.clone(), dir.path())?;
        process.await_ready()?;
        Ok(Self { process, address, _dir: dir })
    }

    /// Starts a client in a process of its own, which submits a job and waits for its outcome.
    fn client(&self, job: &Value) -> Result<Running> {
        let mut command = Command::new("curl");
        command.args(["--silent", "--fail", "--header", &format!("Authorization: Bearer {TOKEN}")]);
        command.args(["--json", &job.to_string(), &format!("http://{}/v1/runs?wait=60s", self.address)]);
        Ok(Running(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?))
    }

    /// Sends a request, and gives the JSON of its answer.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> Result<(u16, Value)> {
        let headers = format!("Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, told) = ask(&self.address, &format!("{method} {path}"), &headers, &body, ANSWER_TIMEOUT)?;
        Ok((status, if told.is_empty() { Value::Null } else { serde_json::from_str(&told)? }))
    }
}

/// The ids of the calls that wait, and the number in each call's arguments.
fn calls(run: &Value) -> Vec<(String, u64)> {
    let of = |call: &Value| Some((call["call"].as_str()?.to_owned(), call["arguments"]["n"].as_u64()?));
    run["calls"].as_array().into_iter().flatten().filter_map(of).collect()
}

/// A gateway and the client that waits at it for its run's outcome are killed while ten calls of the run wait. Others
/// answer half of them without following the run, and take it over.
fn killed(fleet: &Fleet) -> Result<()> {
    let mut first = Gateway::start(&fleet.servers)?;
    let id = format!("g-{}", uuid::Uuid::new_v4());
    let path = format!("/v1/runs/{id}");
    let tools = json!([{ "name": "approve" }]);
    let job = json!({ "id": id, "code": CODE, "tools": tools, "if_client_gone": "wait" });
    let second = Gateway::start(&fleet.servers)?;
    let mut client = first.client(&job)?;
    let waiting = loop {
        let (status, info) = second.ask("GET", &format!("{path}/info"), &Value::Null)?;
        // The fleet may not have the run yet.
        ensure!(matches!(status, 200 | 404), "{info}");
        ensure!(client.0.try_wait()?.is_none(), "the client has ended");
        let waiting = calls(&info);
        if waiting.len() == 10 {
            break waiting;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    client.kill()?;
    first.process.kill()?;

    for (call, n) in &waiting[..5] {
        let (status, told) = second.ask("POST", &format!("{path}/calls/{call}"), &json!({ "ok": n + 100 }))?;
        ensure!(status == 204, "{told}");
    }
    let third = Gateway::start(&fleet.servers)?;
    let (status, taken) = third.ask("POST", &format!("{path}/take-over"), &Value::Null)?;
    ensure!(status == 202, "{taken}");
    // A call that has its answer takes no other.
    for (call, n) in waiting.iter().rev() {
        let (status, told) = third.ask("POST", &format!("{path}/calls/{call}"), &json!({ "ok": n + 200 }))?;
        ensure!(matches!(status, 204 | 404), "{status} {told}");
    }
    let (_, run) = third.ask("GET", &format!("{path}?wait=60s"), &Value::Null)?;
    let answers: Vec<u64> = (0..10).map(|n| n + if n < 5 { 100 } else { 200 }).collect();
    let outcome = &run["outcome"];
    ensure!(outcome["stdout"] == format!("begun\n{answers:?}\n"), "{run}");
    // Nothing ran twice: calls of a second attempt would have other ids, and would still wait.
    ensure!(outcome["usage"]["tool_calls"] == 10, "{run}");
    let (status, again) = second.ask("POST", &format!("{path}/take-over"), &Value::Null)?;
    ensure!(status == 200 && again["outcome"] == *outcome, "the outcome is kept: {again}");
    Ok(())
}
