//! Approval of tool calls on the real fleet: who decides, from where, and what is left if a process is killed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use thermae_client::{Error, JobHandle, Tools};
use thermae_schemas::{Capabilities, ErrorCode, EventBody, Job, JobId, Outcome, Status, Stream, ToolSpec};

use crate::Test;
use crate::approver::{APPROVER, Approver};
use crate::fleet::Fleet;
use crate::servers::{Servers, binary};
use crate::{gateway, keys};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("approvals::a_decision_over_http_needs_the_scope_and_a_user_that_may_approve", over_http),
    ("approvals::whoever_submits_can_not_approve_on_the_command_line", on_the_command_line),
    ("approvals::ten_calls_outlive_the_client_that_was_killed", client_killed),
    ("approvals::ten_calls_outlive_the_gateway_that_was_killed", gateway_killed),
];

/// Kills a worker.
pub(crate) const KILLING: &[(&str, Test)] =
    &[("approvals::a_yes_that_comes_after_the_end_of_the_worker_reaches_nobody", worker_killed)];

/// Longer than a run takes, also if its worker is killed.
const RESULT_TIMEOUT: Duration = Duration::from_secs(90);

/// How long the fleet may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

const SET: &str = r#"[{"pattern": "transfer", "approval": {}}]"#;

const ONE: &str = "print(await transfer(n=900))";

const TEN: &str = "
import asyncio
print('begun', flush=True)
print(await asyncio.gather(*(transfer(n=n) for n in range(10))))
";

fn asks(code: &str) -> Result<Job> {
    let (tools, capabilities) = (vec![ToolSpec::new("transfer")], Some(Capabilities::from_json(SET)?));
    Ok(Job { tools, capabilities, ..Job::python(code) })
}

/// The tool of [`asks`]. It counts its calls.
fn transfers(calls: &Arc<AtomicU32>) -> Arc<Tools> {
    let calls = calls.clone();
    Arc::new(Tools::new().with("transfer", move |asked: Value| {
        calls.fetch_add(1, Ordering::Relaxed);
        async move { Ok(asked["n"].as_u64().unwrap_or_default() + 100) }
    }))
}

fn worker_killed(fleet: &Fleet) -> Result<()> {
    let calls = Arc::new(AtomicU32::new(0));
    let job = Job { stream: vec![Stream::Lifecycle], ..asks(ONE)? };
    fleet.runtime.block_on(async {
        let approver = Approver::connect(&fleet.servers).await?;
        let mut handle = fleet.acme.client().submit(job, Some(transfers(&calls))).await?;
        let (run, mut events) = (handle.id().clone(), handle.events());
        let mut next = async || tokio::time::timeout(RESULT_TIMEOUT, events.next()).await.context("no event");
        // The two events may come in any order.
        let (mut worker, mut asked) = (None, None);
        let (worker, asked) = loop {
            match next().await?.context("no question")?.body {
                EventBody::Started { worker: id } => worker = Some(id),
                EventBody::Approval(question) => asked = Some(question),
                _ => {}
            }
            if let Some(both) = worker.clone().zip(asked.clone()) {
                break both;
            }
        };
        tokio::task::block_in_place(|| fleet.kill_worker(&worker))?;
        // Nobody reads the dead worker's queue.
        let early = approver.say_yes(&run, &asked.call, Some(&asked.reply_to)).await;
        tokio::task::block_in_place(|| fleet.add_worker())?;
        ensure!(matches!(early, Err(Error::NoAnswer(_) | Error::UnknownCall(_))), "{early:?}");
        let mut outcome = None;
        while let Some(event) = next().await? {
            match event.body {
                EventBody::Started { .. } => anyhow::bail!("it was started again"),
                EventBody::Result(result) => outcome = Some(result),
                _ => {}
            }
        }
        let outcome = outcome.context("no outcome")?;
        let code = outcome.error.as_ref().map(|error| error.code);
        ensure!((outcome.status, code) == (Status::Lost, Some(ErrorCode::WorkerLost)), "{outcome:?}");
        let late = approver.say_yes(&run, &asked.call, None).await;
        ensure!(matches!(late, Err(Error::UnknownCall(_))), "{late:?}");
        ensure!(calls.load(Ordering::Relaxed) == 0, "the call was made");
        Ok(())
    })
}

/// One gateway acts as the user that submits, the other one as the user that approves.
fn over_http(fleet: &Fleet) -> Result<()> {
    let servers = &fleet.servers;
    let submits = keys::Gateway::start(servers, &servers.acme)?;
    let decides = keys::Gateway::start(servers, &servers.as_user(APPROVER, APPROVER)?)?;
    let key = |at: &keys::Gateway, scopes| at.key(&["create", "--tenant", "acme", "--scope", scopes]);
    let (agent, unfit) = (key(&submits, "run,read,answer")?, key(&submits, "approve")?);
    let (reader, person) = (key(&decides, "run,read,answer")?, key(&decides, "approve")?);
    let run = JobId::random();
    let job = serde_json::to_value(Job { id: run.clone(), ..asks(ONE)? })?;
    let (_, told) = submits.ask(&agent, "POST /v1/runs?wait=60s&until=call", &job)?;
    let asked = told["approvals"][0]["call"].as_str().with_context(|| format!("nothing waits: {told}"))?;
    ensure!(told["calls"] == json!([]), "the tool hears of the call: {told}");

    let (decision, yes) = (format!("POST /v1/runs/{run}/calls/{asked}/decision"), json!({ "decision": "approve" }));
    submits.refuses(&agent, &decision, 403, "missing_scope")?;
    decides.refuses(&reader, &decision, 403, "missing_scope")?;
    let expect = |at: &keys::Gateway, key: &str, what: &str, body: &Value, status: u16, code: &Value| {
        let (found, told) = at.ask(key, what, body)?;
        ensure!((found, &told["code"]) == (status, code), "{what}: not {status} {code}: {found} {told}");
        anyhow::Ok(told)
    };
    // The scope alone is not enough: RabbitMQ does not let whoever submits approve.
    expect(&submits, &unfit, &decision, &yes, 502, &json!("broker_denied"))?;
    let told = expect(&decides, &person, &decision, &yes, 200, &Value::Null)?;
    ensure!(told["verdict"]["decision"] == "approve", "{told}");
    expect(&decides, &person, &decision, &json!({ "decision": "deny" }), 409, &json!("approval_decided"))?;

    let (_, told) = submits.get(&agent, &format!("/v1/runs/{run}?wait=60s&until=call"))?;
    let call = told["calls"][0]["call"].as_str().with_context(|| format!("no call: {told}"))?;
    expect(&submits, &agent, &format!("POST /v1/runs/{run}/calls/{call}"), &json!({ "ok": 7 }), 204, &Value::Null)?;
    let (_, told) = submits.get(&agent, &format!("/v1/runs/{run}?wait=60s"))?;
    ensure!(told["outcome"]["stdout"] == "7\n", "{told}");
    expect(&decides, &person, &decision, &yes, 404, &json!("unknown_call"))?;
    Ok(())
}

/// Runs `thermae approvals approve` as this user, and gives whether it succeeds, and all that it says.
fn approves(servers: &Servers, user: &str, run: &JobId, call: &str) -> Result<(bool, String)> {
    let mut command = Command::new(binary("thermae")?);
    command.args(["approvals", "approve", run.as_str(), call, "--tenant", "acme"]);
    let output = command.env("THERMAE_AMQP", servers.as_user(user, user)?).stdin(Stdio::null()).output()?;
    let said = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

fn on_the_command_line(fleet: &Fleet) -> Result<()> {
    let calls = Arc::new(AtomicU32::new(0));
    let (handle, asked) = fleet.runtime.block_on(async {
        let handle = fleet.acme.client().submit(asks(ONE)?, Some(transfers(&calls))).await?;
        let asked = Approver::connect(&fleet.servers).await?.asked(handle.id(), 1).await?;
        anyhow::Ok((handle, asked))
    })?;
    let call = &asked[0].call;
    let (done, said) = approves(&fleet.servers, "acme", handle.id(), call)?;
    ensure!(!done && said.contains("broker_denied"), "{said}");
    ensure!(calls.load(Ordering::Relaxed) == 0, "the call was made");
    let (done, said) = approves(&fleet.servers, APPROVER, handle.id(), call)?;
    ensure!(done && said == format!("approved {call}\n"), "{said}");
    let outcome = fleet.runtime.block_on(ended(&handle))?;
    ensure!((outcome.stdout.as_str(), calls.load(Ordering::Relaxed)) == ("1000\n", 1), "{outcome:?}");
    Ok(())
}

async fn ended(run: &JobHandle) -> Result<Outcome> {
    Ok(tokio::time::timeout(RESULT_TIMEOUT, run.result()).await.context("no result")??)
}

/// Ten calls of a run wait for approval, and whoever submitted it is killed by `kill`. Five calls are approved before
/// another client takes the run over, and five after that.
fn outlives(fleet: &Fleet, run: &JobId, kill: impl FnOnce() -> Result<()>) -> Result<()> {
    let calls = Arc::new(AtomicU32::new(0));
    let outcome = fleet.runtime.block_on(async {
        let approver = Approver::connect(&fleet.servers).await?;
        let asked = approver.asked(run, 10).await?;
        tokio::task::block_in_place(kill)?;
        approver.approve(run, &asked[..5]).await?;
        let (info, handle) = fleet.acme.client().attach(run, Some(transfers(&calls)), ANSWER_WITHIN).await?;
        ensure!(info.run == *run, "{info:?}");
        approver.approve(run, &approver.asked(run, 5).await?).await?;
        ended(&handle).await
    })?;
    let answers: Vec<u64> = (100..110).collect();
    ensure!(outcome.stdout == format!("begun\n{answers:?}\n"), "{outcome:?}");
    ensure!(outcome.usage.tool_calls == 10, "{outcome:?}");
    ensure!(calls.load(Ordering::Relaxed) == 10, "{calls:?} calls were made");
    Ok(())
}

fn gateway_killed(fleet: &Fleet) -> Result<()> {
    let mut gateway = gateway::Gateway::start(&fleet.servers)?;
    let run = JobId::random();
    let job = Job { id: run.clone(), ..asks(TEN)? };
    let (status, told) = gateway.ask("POST", "/v1/runs", &serde_json::to_value(&job)?)?;
    ensure!(status == 202, "{told}");
    outlives(fleet, &run, || gateway.process.kill())
}

/// The process of a client, which is killed on drop.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            eprintln!("{error:#}");
        }
    }
}

fn client_killed(fleet: &Fleet) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (program, set) = (dir.path().join("main.py"), dir.path().join("set.json"));
    std::fs::write(&program, TEN)?;
    std::fs::write(&set, SET)?;
    let mut command = Command::new(binary("thermae")?);
    command.arg("run").arg(&program).arg("--capabilities").arg(&set).args(["--tool", "transfer=false"]);
    command.env("THERMAE_AMQP", &fleet.servers.acme).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut client = Running(command.spawn()?);
    // It says how somebody else decides, once for each call.
    let (mut stderr, mut said) = (BufReader::new(client.0.stderr.take().context("no stderr")?), String::new());
    stderr.read_line(&mut said)?;
    let run = said.split("thermae approvals list ").nth(1).and_then(|rest| rest.split(',').next());
    let run = JobId::new(run.with_context(|| said.clone())?)?;
    outlives(fleet, &run, || client.kill())
}
