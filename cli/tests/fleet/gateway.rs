//! Gateways in front of the real fleet.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::Test;
use crate::fleet::{Fleet, get};
use crate::servers::{Servers, binary};

pub(crate) const TESTS: &[(&str, Test)] =
    &[("gateway::another_gateway_finishes_the_run_of_one_that_was_killed", killed)];

const TOKEN: &str = "token-of-the-gateways";

/// How long a gateway may take until it is ready.
const READY: Duration = Duration::from_secs(30);

/// Longer than any answer takes.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);

const CODE: &str = "
import asyncio
print('begun', flush=True)
print(await asyncio.gather(*(approve(n=n) for n in range(10))))
";

/// A process of `thermae serve`, killed on drop.
struct Gateway {
    child: Child,
    address: String,
}

impl Gateway {
    fn start(servers: &Servers) -> Result<Self> {
        let address = format!("127.0.0.1:{}", TcpListener::bind("127.0.0.1:0")?.local_addr()?.port());
        let mut command = Command::new(binary("thermae")?);
        command.args(["serve", "--listen", &address]).env("THERMAE_TOKEN", TOKEN).env("THERMAE_AMQP", &servers.acme);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let mut gateway = Self { child, address };
        let begun = Instant::now();
        while get(&gateway.address, "/readyz").ok().is_none_or(|(status, _)| status != 200) {
            if let Some(status) = gateway.child.try_wait()? {
                bail!("the gateway ended with {status}");
            }
            ensure!(begun.elapsed() < READY, "the gateway was not ready within {READY:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(gateway)
    }

    /// Sends a request, and gives the JSON of its answer.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Result<(u16, Value)> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let (host, body) = (&self.address, if body.is_null() { String::new() } else { body.to_string() });
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
        let status = head.split(' ').nth(1).context("no HTTP status")?.parse()?;
        Ok((status, if body.is_empty() { Value::Null } else { serde_json::from_str(body)? }))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The ids of the calls that wait, and the number in each call's arguments.
fn calls(run: &Value) -> Vec<(String, u64)> {
    let of = |call: &Value| Some((call["call"].as_str()?.to_owned(), call["arguments"]["n"].as_u64()?));
    run["calls"].as_array().into_iter().flatten().filter_map(of).collect()
}

/// A gateway is killed while ten calls of its run wait. Others answer half of them without following the run, and take
/// it over.
fn killed(fleet: &Fleet) -> Result<()> {
    let first = Gateway::start(&fleet.servers)?;
    let id = format!("g-{}", uuid::Uuid::new_v4());
    let path = format!("/v1/runs/{id}");
    let tools = json!([{ "name": "approve" }]);
    let job = json!({ "protocol": 3, "id": id, "code": CODE, "tools": tools, "if_client_gone": "wait" });
    let (status, begun) = first.ask("POST", "/v1/runs", &job)?;
    ensure!(status == 202, "{begun}");
    let second = Gateway::start(&fleet.servers)?;
    let waiting = loop {
        let (status, info) = second.ask("GET", &format!("{path}/info"), &Value::Null)?;
        ensure!(status == 200, "{info}");
        let waiting = calls(&info);
        if waiting.len() == 10 {
            break waiting;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    drop(first);

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
    ensure!(outcome["usage"]["tool_calls"] == 10, "{run}");
    let (status, again) = second.ask("POST", &format!("{path}/take-over"), &Value::Null)?;
    ensure!(status == 200 && again["outcome"] == *outcome, "the outcome is kept: {again}");
    Ok(())
}
