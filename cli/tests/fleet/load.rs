//! Clients that keep a fleet busy with a bit of everything.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use async_trait::async_trait;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use thermae_client::{Client, JobHandle, ToolHandler};
use thermae_schemas::{
    Capabilities, Class, EventBody, Exec, Job, JobId, PoolName, Request, RequestWork, SessionName, SessionRequest,
    TokenText, ToolFailure, ToolSpec,
};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::approver::Approver;
use crate::fleet::Fleet;

/// Longer than a job takes, also if its worker is killed.
const RESULT_TIMEOUT: Duration = Duration::from_secs(60);

/// Numbers of outcomes, by status.
type Seen = BTreeMap<&'static str, usize>;

pub(crate) fn limited(mut job: Job, wall_ms: u64) -> Job {
    job.limits.wall_ms = Some(wall_ms);
    job
}

/// A tool that gives its arguments back, or raises an error if `fail` is true.
struct Echo;

#[async_trait]
impl ToolHandler for Echo {
    async fn call(&self, _: &JobId, _: &str, arguments: Box<RawValue>) -> Result<Box<RawValue>, ToolFailure> {
        let read: Value = serde_json::from_str(arguments.get()).map_err(|error| error.to_string())?;
        if read["fail"] == json!(true) { Err("as you wished".into()) } else { Ok(arguments) }
    }
}

/// Clients that keep the fleet busy until [`Load::end`].
pub(crate) struct Load {
    stop: DropGuard,
    tasks: Vec<JoinHandle<Result<Seen>>>,
}

/// What all clients use.
struct Means {
    client: Client,
    approver: Approver,
    /// A token for the tool `echo`.
    token: TokenText,
}

impl Load {
    pub(crate) fn start(fleet: &Fleet) -> Result<Self> {
        let stop = CancellationToken::new();
        let means = Arc::new(Means {
            client: fleet.acme.client().clone(),
            approver: fleet.runtime.block_on(Approver::connect(&fleet.servers))?,
            token: TokenText::new(fleet.authority.mint(r#"[{"pattern": "echo"}]"#)?),
        });
        let tasks = (0..4)
            .map(|n| {
                let (means, stop) = (means.clone(), stop.clone());
                fleet.runtime.spawn(async move {
                    let mut seen = Seen::new();
                    while !stop.is_cancelled() {
                        round(&means, n, &mut seen).await?;
                    }
                    Ok(seen)
                })
            })
            .collect();
        Ok(Self { stop: stop.drop_guard(), tasks })
    }

    /// Stops the clients. Checks that every kind of outcome has come.
    pub(crate) fn end(self, fleet: &Fleet) -> Result<()> {
        drop(self.stop);
        let mut seen = Seen::new();
        for task in self.tasks {
            for (status, count) in fleet.runtime.block_on(task)?? {
                *seen.entry(status).or_default() += count;
            }
        }
        for status in ["succeeded", "failed", "timed_out", "cancelled", "rejected"] {
            ensure!(seen.contains_key(status), "no job ended as {status}: {seen:?}");
        }
        Ok(())
    }
}

/// Runs one job of each kind and counts the outcomes by status. Single outcomes don't matter, because a worker is
/// killed meanwhile.
async fn round(means: &Means, n: usize, seen: &mut Seen) -> Result<()> {
    let client = &means.client;
    // More jobs at once than the fleet has credit for, so that some wait.
    let mut burst = Vec::new();
    for _ in 0..8 {
        burst.push(client.submit(Job::python("import time\ntime.sleep(0.05)\nprint(1 + 1)"), None).await?);
    }
    for handle in burst {
        note(&handle, seen).await?;
    }
    for job in kinds(n, &means.token)? {
        note(&client.submit(job, Some(Arc::new(Echo))).await?, seen).await?;
    }
    approved(means, seen).await?;
    command(client, n, seen).await?;
    // The cancel ends the job whether the job waits or runs.
    let handle = client.submit(Job::python("import time\ntime.sleep(60)"), None).await?;
    handle.cancel().await?;
    note(&handle, seen).await
}

/// A job whose call waits for approval, until somebody approves it.
async fn approved(means: &Means, seen: &mut Seen) -> Result<()> {
    let capabilities = Some(Capabilities::from_json(r#"[{"pattern": "echo", "approval": {}}]"#)?);
    let job = Job { tools: vec![ToolSpec::new("echo")], capabilities, ..Job::python("await echo()") };
    let mut handle = means.client.submit(job, Some(Arc::new(Echo))).await?;
    let mut events = handle.events();
    while let Some(event) = tokio::time::timeout(RESULT_TIMEOUT, events.next()).await? {
        if let EventBody::Approval(asked) = event.body {
            // The worker may have been killed just now. Then the decision reaches nobody.
            let _ = means.approver.say_yes(handle.id(), &asked.call, Some(&asked.reply_to)).await;
        }
    }
    note(&handle, seen).await
}

/// A command in a session of its own.
async fn command(client: &Client, n: usize, seen: &mut Seen) -> Result<()> {
    let name = SessionName::new(format!("commands-{n}-{}", uuid::Uuid::new_v4()))?;
    let job = |close| {
        let session = SessionRequest { close, ..SessionRequest::new(name.clone()) };
        Job { session: Some(session), ..Job::python("pass") }
    };
    note(&client.submit(job(false), None).await?, seen).await?;
    let exec = Exec { shell: Some("true".to_owned()), ..Exec::default() };
    let request = client.request(Request::new(JobId::random(), name.clone(), RequestWork::Exec(exec)));
    tokio::time::timeout(RESULT_TIMEOUT, request.done()).await??;
    note(&client.submit(job(true), None).await?, seen).await
}

/// One job of each kind, to be run one after the other.
fn kinds(n: usize, token: &TokenText) -> Result<Vec<Job>> {
    let name = SessionName::new(format!("load-{n}-{}", uuid::Uuid::new_v4()))?;
    let session = |code: &str| {
        let session = SessionRequest::new(name.clone());
        Job { session: Some(session), ..Job::python(code) }
    };
    let echo = || vec![ToolSpec::new("echo")];
    let calls = "for n in range(5):\n    await echo(n=n)\ntry:\n    await echo(fail=True)\nexcept Exception:\n    pass";
    Ok(vec![
        Job { class: Class::High, ..Job::python("import json\nprint(json.dumps({}))") },
        Job { tools: echo(), ..Job::python(calls) },
        Job { tools: echo(), token: Some(token.clone()), ..Job::python("await echo()") },
        session("x = 1"),
        session("print(x)"),
        // The session ends with its interpreter.
        session("import os\nos._exit(3)"),
        Job::python("open('artifacts/out', 'w').write('x' * 1000)"),
        Job::python("raise ValueError('no')"),
        Job { pool: PoolName::new("no-such")?, ..Job::python("") },
        limited(Job::python("while True: pass"), 200),
    ])
}

async fn note(handle: &JobHandle, seen: &mut Seen) -> Result<()> {
    let outcome = tokio::time::timeout(RESULT_TIMEOUT, handle.result()).await??;
    *seen.entry(outcome.status.as_str()).or_default() += 1;
    Ok(())
}
