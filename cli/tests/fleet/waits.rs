//! Runs that wait for answers of their tools, or for approval, on the real fleet.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use thermae_client::{Client, JobHandle, Tools};
use thermae_schemas::{Capabilities, Job, Status};
use tokio::sync::watch;

use crate::Test;
use crate::approver::Approver;
use crate::fleet::{Fleet, WARM};

/// The second one finds the containers of the first one, so it prints what a run takes without its container.
pub(crate) const TESTS: &[(&str, Test)] = &[
    ("waits::runs_that_await_approval_leave_the_slots_to_others", approvals),
    ("waits::runs_that_await_answers_leave_the_slots_to_others", answers),
];

/// Five times as many as the fleet has slots.
const RUNS: usize = 20;

/// What each of them does.
const CODE: &str = "print(await approve())";

/// Prints that are timed.
const PRINTS: usize = 21;

/// Longer than the fleet needs to make a container for each run.
const PAUSED_TIMEOUT: Duration = Duration::from_secs(120);

fn answers(fleet: &Fleet) -> Result<()> {
    let (answer, answered) = watch::channel(false);
    let tools = Arc::new(Tools::new().with("approve", move |_: Value| {
        let mut answered = answered.clone();
        async move { answered.wait_for(|yes| *yes).await.map(|yes| *yes).map_err(|gone| gone.to_string()) }
    }));
    let job = || Job { tools: tools.specs(), ..Job::python(CODE) };
    fleet.runtime.block_on(leave_their_slots(fleet, &job, &tools, async |_| {
        answer.send_replace(true);
        Ok(())
    }))
}

fn approvals(fleet: &Fleet) -> Result<()> {
    let tools = Arc::new(Tools::new().with("approve", |_: Value| async { Ok(true) }));
    let capabilities = Some(Capabilities::from_json(r#"[{"pattern": "approve", "approval": {}}]"#)?);
    let job = || Job { tools: tools.specs(), capabilities: capabilities.clone(), ..Job::python(CODE) };
    fleet.runtime.block_on(async {
        let approver = Approver::connect(&fleet.servers).await?;
        let approve = async |runs: &[JobHandle]| {
            for run in runs {
                approver.approve(run.id(), &approver.asked(run.id(), 1).await?).await?;
            }
            Ok(())
        };
        leave_their_slots(fleet, &job, &tools, approve).await
    })
}

/// Runs that wait until `go_on`, while another tenant's prints get slots. Their times are only printed.
async fn leave_their_slots(
    fleet: &Fleet,
    job: &impl Fn() -> Job,
    tools: &Arc<Tools>,
    go_on: impl AsyncFnOnce(&[JobHandle]) -> Result<()>,
) -> Result<()> {
    let globex = thermae_fleet::Fleet::connect(fleet.servers.globex.as_str()).await?;
    until_warm(fleet).await?;
    let usual = median(globex.client()).await?;
    // Those that the tenant still has of earlier runs cost no more memory now.
    let there = fleet.metric_of("thermae_worker_containers_bound", "pool=")?;
    let free = memory()?;
    let mut waiting = Vec::new();
    for _ in 0..RUNS {
        waiting.push(fleet.acme.client().submit(job(), Some(tools.clone())).await?);
    }
    until_paused(fleet).await?;
    until_warm(fleet).await?;
    let each = free.saturating_sub(memory()?) / RUNS as u64;
    let meanwhile = median(globex.client()).await?;
    println!(
        "a print takes {:.1} ms, and {:.1} ms beside {RUNS} paused runs; each of these takes {:.1} MiB, as {there} of the \
         tenant's containers were there before",
        usual.as_secs_f64() * 1e3,
        meanwhile.as_secs_f64() * 1e3,
        each as f64 / f64::from(1 << 20)
    );
    go_on(&waiting).await?;
    for run in &waiting {
        let outcome = result(run).await?;
        ensure!((outcome.status, outcome.stdout.as_str()) == (Status::Succeeded, "True\n"), "{outcome:?}");
        ensure!(outcome.usage.paused_ms > 0.0, "{outcome:?}");
    }
    globex.close().await;
    Ok(())
}

async fn result(run: &JobHandle) -> Result<thermae_schemas::Outcome> {
    Ok(tokio::time::timeout(PAUSED_TIMEOUT, run.result()).await.context("no result")??)
}

/// How long a print takes, at the median.
async fn median(client: &Client) -> Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..PRINTS {
        let began = Instant::now();
        let outcome = result(&client.submit(Job::python("print(1)"), None).await?).await?;
        ensure!(outcome.stdout == "1\n", "{outcome:?}");
        times.push(began.elapsed());
    }
    times.sort_unstable();
    Ok(times[PRINTS / 2])
}

async fn until_paused(fleet: &Fleet) -> Result<()> {
    let paused = async {
        while fleet.metric_of("thermae_worker_containers", "state=\"paused\"")? < RUNS as f64 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(PAUSED_TIMEOUT, paused).await.context("the runs are not paused")?
}

/// Waits until containers stand in for those of the paused runs. Making them takes processor time.
async fn until_warm(fleet: &Fleet) -> Result<()> {
    let containers = |state: &str| fleet.metric_of("thermae_worker_containers", &format!("state={state:?}"));
    let warm = async {
        while containers("idle")? < (2 * WARM) as f64 || containers("creating")? > 0.0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(PAUSED_TIMEOUT, warm).await.context("the pools are not warm again")?
}

/// Memory that this machine has left, in bytes.
fn memory() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")).context("no MemAvailable")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
}
