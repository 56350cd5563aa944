//! A rolling upgrade: programs of an earlier commit, which speak only protocols 1 and 2, beside those of this build.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use thermae_client::Client;
use thermae_schemas::{
    Capabilities, ErrorCode, EventBody, InputValue, Job, Outcome, SessionName, SessionRequest, Status, Stream, ToolSpec,
};

use crate::HarmTest;
use crate::fleet::{Process, tail};
use crate::promise::FLEET;
use crate::servers::{OwnServers, older};

pub(crate) const TESTS: &[(&str, HarmTest)] = &[("upgrade::old_and_new_programs_make_one_fleet", mixed)];

/// Longer than another scheduler needs to take the lead.
const RESULT_TIMEOUT: Duration = Duration::from_secs(90);

/// Two slots, from namespaces: an older worker could not use this build's image.
const POOL: &str = "[pools.default]\nbackend = \"native\"\nslots = 2\n";

/// Starts processes of either build on one set of servers.
struct Starter<'a> {
    own: &'a OwnServers,
    dir: TempDir,
}

impl Starter<'_> {
    fn start(&self, program: &Path, name: &str) -> Result<Process> {
        let worker = name.starts_with("worker").then(|| format!("name = {name:?}\nfleet = {FLEET:?}\n{POOL}"));
        let program = program.to_string_lossy();
        let (name, more) = (name.to_owned(), worker.unwrap_or_default());
        let mut process = Process::spawn(&program, name, &self.own.servers, self.dir.path(), FLEET, &more)?;
        process.await_ready()?;
        Ok(process)
    }

    fn old(&self, program: &str, name: &str) -> Result<Process> {
        self.start(&older(program)?, name)
    }

    fn today(&self, program: &str, name: &str) -> Result<Process> {
        self.start(Path::new(program), name)
    }

    /// The ends of all processes' logs.
    fn logs(&self) -> String {
        let files = std::fs::read_dir(self.dir.path()).into_iter().flatten().flatten().map(|file| file.path());
        let logs = files.filter(|file| file.extension().is_some_and(|kind| kind == "log"));
        logs.map(|log| format!("--- {}\n{}\n", log.display(), tail(&log))).collect()
    }
}

fn mixed(own: &OwnServers) -> Result<()> {
    let starter = Starter { own, dir: tempfile::Builder::new().prefix("thermae-e2e-").tempdir()? };
    upgrade(&starter).map_err(|error| anyhow::anyhow!("{error:?}\n{}", starter.logs()))
}

fn upgrade(starter: &Starter<'_>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut old_scheduler = starter.old("thermae-scheduler", "scheduler-old")?;
    let mut old_worker = starter.old("thermae-worker", "worker-old")?;
    let fleet = runtime.block_on(thermae_fleet::Fleet::connect(starter.own.servers.acme.as_str()))?;
    let client = fleet.client();
    runtime.block_on(async {
        all(client, (0..6).flat_map(|n| [plain(n), with_input(n)]).collect()).await?;
        let (refused, _) = outcome(client, limited(0)).await?;
        let code = refused.error.as_ref().map(|error| error.code);
        ensure!(code == Some(ErrorCode::UnsupportedProtocol), "an old scheduler refuses a new job: {refused:?}");
        let made = in_session(plain(0));
        ensure!(outcome(client, made).await?.0.status == Status::Succeeded, "the old worker makes a session");
        anyhow::Ok(())
    })?;

    let mut new_worker = starter.today("thermae-worker", "worker-new")?;
    runtime.block_on(all(client, (0..12).map(plain).collect())).context("an old scheduler with a new worker")?;
    let mut new_scheduler = starter.today("thermae-scheduler", "scheduler-new")?;
    old_scheduler.drain()?;

    runtime.block_on(async {
        let jobs = (0..12).flat_map(|n| [plain(n), with_input(n), limited(n)]).collect();
        let workers = all(client, jobs).await.context("a new scheduler with workers of both kinds")?;
        ensure!(workers.iter().all(|worker| worker.starts_with("worker-new")), "new jobs ran on {workers:?}");
        let (refused, _) = outcome(client, in_session(limited(0))).await?;
        let code = refused.error.as_ref().map(|error| error.code);
        ensure!(code == Some(ErrorCode::UnsupportedProtocol), "the old worker holds the session: {refused:?}");
        let (kept, _) = outcome(client, in_session(plain(1))).await?;
        ensure!(kept.status == Status::Succeeded, "the session goes on: {kept:?}");
        anyhow::Ok(())
    })?;

    // The only worker that speaks the new protocol is killed while it runs such jobs. They wait for the next one.
    runtime.block_on(async {
        let slow = |n| {
            let job = limited(n);
            Job { max_attempts: 5, code: format!("import time\ntime.sleep(0.5)\n{}", job.code), ..job }
        };
        let lasting = |n| Job { max_attempts: 5, ..plain(n) };
        let jobs: Vec<Job> = (0..6).map(slow).chain((0..6).map(lasting)).collect();
        let ended = tokio::spawn({
            let client = client.clone();
            async move { all(&client, jobs).await }
        });
        let mut begun = client.submit(Job { max_attempts: 5, ..limited(9) }, None).await?;
        let mut events = begun.events();
        while !matches!(events.next().await.map(|event| event.body), Some(EventBody::Started { .. }) | None) {}
        tokio::task::block_in_place(|| new_worker.kill())?;
        new_worker = tokio::task::block_in_place(|| starter.today("thermae-worker", "worker-newer"))?;
        ended.await?.context("after the new worker was killed")?;
        ensure!(begun.result().await?.status == Status::Succeeded, "the job that ran when its worker was killed");
        anyhow::Ok(())
    })?;

    old_worker.drain()?;
    runtime.block_on(all(client, (0..6).flat_map(|n| [plain(n), with_input(n), limited(n)]).collect()))?;
    new_worker.drain()?;
    new_scheduler.drain()?;
    runtime.block_on(fleet.close());
    Ok(())
}

fn plain(n: usize) -> Job {
    Job { stream: vec![Stream::Lifecycle], ..Job::python(format!("print({n})")) }
}

/// A job of protocol 2, which every program here speaks. It prints `n`, too.
fn with_input(n: usize) -> Job {
    let input = InputValue::Value((&serde_json::json!(n)).into());
    Job { inputs: [("n".to_owned(), input)].into(), code: "print(n)".into(), ..plain(n) }
}

/// A job of protocol 3: it has capabilities, which allow nothing. It prints `n`, but only if its call is refused for
/// that. A worker that does not look at capabilities would send the call to the client, which has no tools.
fn limited(n: usize) -> Job {
    let call = "try:\n    await t()\nexcept ToolError as error:\n    if 'capability_refused' in str(error):\n        ";
    let capabilities = Some(Capabilities::default());
    Job { tools: vec![ToolSpec::new("t")], capabilities, code: format!("{call}print({n})"), ..plain(n) }
}

fn in_session(job: Job) -> Job {
    let name = SessionName::new("upgrade").unwrap_or_else(|_| unreachable!("it is a valid name"));
    Job { session: Some(SessionRequest::new(name)), ..job }
}

/// The job's outcome, and the workers on which it was started.
async fn outcome(client: &Client, job: Job) -> Result<(Outcome, Vec<String>)> {
    let mut handle = client.submit(job, None).await?;
    let mut events = handle.events();
    let mut workers = Vec::new();
    let heard = async {
        while let Some(event) = events.next().await {
            match event.body {
                EventBody::Started { worker } => workers.push(worker.to_string()),
                EventBody::Result(_) => break,
                _ => {}
            }
        }
        handle.result().await
    };
    let outcome = tokio::time::timeout(RESULT_TIMEOUT, heard).await.context("no result in time")??;
    Ok((outcome, workers))
}

/// Runs jobs that must all succeed and print their numbers. Gives the workers that ran those of protocol 3.
async fn all(client: &Client, jobs: Vec<Job>) -> Result<BTreeSet<String>> {
    let mut running = tokio::task::JoinSet::new();
    for job in jobs {
        let client = client.clone();
        running.spawn(async move {
            let newer = job.capabilities.is_some();
            let (outcome, workers) = outcome(&client, job).await?;
            ensure!(outcome.status == Status::Succeeded && !outcome.stdout.is_empty(), "{outcome:?}");
            anyhow::Ok(if newer { workers } else { Vec::new() })
        });
    }
    let mut newer = BTreeSet::new();
    while let Some(workers) = running.join_next().await {
        newer.extend(workers??);
    }
    Ok(newer)
}
