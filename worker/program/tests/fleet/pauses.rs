//! Runs that wait for tool calls, with the real runner: they are paused, give their slots back, and go on.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use thermae_backplane::registry::Registry;
use thermae_schemas::{ErrorCode, EventBody, Job, Status, TenantName, ToolReply, ToolSpec};
use thermae_worker::Options;

use crate::harness::{Fleet, Worker, options, pool_name, python, session_job, within};
use crate::requests::asker::{Asker, exec};

pub const CONTAINERS: &str = "thermae_worker_containers";
const REFUSED: &str = "thermae_worker_pauses_refused_total";
/// The wall clock of a job here. It must be enough to come to a call on a busy machine, and the tests wait for longer.
const WALL_MS: u64 = 8000;
const BUSY: &str = "import time\nend = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass\nprint('busy')";

/// One slot.
pub fn one_slot() -> Options {
    let mut options = options();
    options.pools.get_mut(&pool_name()).unwrap().slots = Some(1);
    options
}

/// A job that prints what its tool answers. Its wall clock allows less than the tests wait.
fn asks() -> Job {
    let mut job = python("print(await look())");
    job.tools = vec![ToolSpec::new("look")];
    job.limits.wall_ms = Some(WALL_MS);
    job
}

pub async fn until_paused(worker: &Worker, count: f64) {
    let paused = async {
        while worker.count(CONTAINERS, "paused") != count {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within("the pause", paused).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_run_has_no_slot_no_credit_and_all_the_time_of_its_pause() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(one_slot()).await;
    let jobs = [asks(), asks(), asks()];
    let mut calls = Vec::new();
    for job in &jobs {
        fleet.submit(job).await;
        calls.push(fleet.tool_call(job).await);
    }
    until_paused(&worker, 3.0).await;
    let held = async {
        while fleet.registry.credit_used(&pool_name()).await.unwrap() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within("the credit", held).await;
    let print = python("print('another tenant')");
    fleet.submit_as(&TenantName::new("globex").unwrap(), &print).await;
    assert_eq!(fleet.outcome(&print).await.stdout, "another tenant\n");
    // Together, the waits are longer than the wall clock of each.
    tokio::time::sleep(Duration::from_millis(WALL_MS)).await;
    for (job, call) in jobs.iter().zip(&calls) {
        fleet.answer(call, ToolReply::Ok(json!(job.id).into())).await;
        let outcome = fleet.outcome(job).await;
        assert_eq!((outcome.status, outcome.stdout), (Status::Succeeded, format!("{}\n", job.id)));
        let usage = outcome.usage;
        assert!(usage.paused_ms >= WALL_MS as f64 && usage.wall_ms >= usage.paused_ms, "{usage:?}");
    }
    until_paused(&worker, 0.0).await;
    // A container is busy for a moment after its job's outcome.
    let idle = async {
        while worker.count(CONTAINERS, "busy") != 0.0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within("the slot of the last job", idle).await;
    assert_eq!(worker.count(REFUSED, ""), 0.0);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_on_only_when_it_has_a_slot() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(one_slot()).await;
    let (job, busy) = (asks(), python(BUSY));
    fleet.submit(&job).await;
    let call = fleet.tool_call(&job).await;
    until_paused(&worker, 1.0).await;
    fleet.submit(&busy).await;
    let has_it = async {
        while worker.count(CONTAINERS, "busy") != 1.0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within("the slot of the other job", has_it).await;
    fleet.answer(&call, ToolReply::Ok(json!("on").into())).await;
    // The first outcome is that of the job that had the slot.
    let (first, second) = (fleet.outcome(&busy).await, fleet.outcome(&job).await);
    assert_eq!((first.stdout.as_str(), second.stdout.as_str()), ("busy\n", "on\n"));
    assert!(second.usage.wall_ms > 1000.0, "{second:?}");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_too_many_are_paused_a_wait_counts_against_the_wall_clock() {
    let mut fleet = Fleet::new().await;
    let mut options = one_slot();
    options.pools.get_mut(&pool_name()).unwrap().max_paused_per_tenant = Some(1);
    let worker = fleet.worker(options).await;
    let (first, second) = (asks(), asks());
    fleet.submit(&first).await;
    let call = fleet.tool_call(&first).await;
    until_paused(&worker, 1.0).await;
    fleet.submit(&second).await;
    fleet.tool_call(&second).await;
    let outcome = fleet.outcome(&second).await;
    assert_eq!((outcome.status, outcome.error.unwrap().code), (Status::TimedOut, ErrorCode::WallTimeout));
    assert_eq!(worker.count(REFUSED, ""), 1.0);
    fleet.answer(&call, ToolReply::Ok(json!(1).into())).await;
    assert_eq!(fleet.outcome(&first).await.stdout, "1\n");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_run_is_cancelled_or_given_up_as_any_other() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(one_slot()).await;
    let (cancelled, late) = (asks(), Job { limits: asks().limits, ..asks() });
    let mut late = late;
    late.code = "try:\n    await look()\nexcept TimeoutError:\n    print('late')".into();
    late.limits.tool_ms = Some(WALL_MS);
    for job in [&cancelled, &late] {
        fleet.submit(job).await;
        fleet.tool_call(job).await;
    }
    until_paused(&worker, 2.0).await;
    fleet.cancel(&worker.id, &cancelled).await;
    assert_eq!(fleet.outcome(&cancelled).await.status, Status::Cancelled);
    assert_eq!(fleet.outcome(&late).await.stdout, "late\n");
    let after = python("print(1)");
    fleet.submit(&after).await;
    assert_eq!(fleet.outcome(&after).await.stdout, "1\n");
    until_paused(&worker, 0.0).await;
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_waits_as_well_and_keeps_its_variables() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(one_slot()).await;
    let mut job = session_job("s", "x = await look()\nprint(x)");
    (job.tools, job.limits) = (asks().tools, asks().limits);
    fleet.submit_to(&worker.id, &job).await;
    let call = fleet.tool_call(&job).await;
    until_paused(&worker, 1.0).await;
    let print = python("print('meanwhile')");
    fleet.submit(&print).await;
    assert_eq!(fleet.outcome(&print).await.stdout, "meanwhile\n");
    tokio::time::sleep(Duration::from_millis(WALL_MS)).await;
    fleet.answer(&call, ToolReply::Ok(json!(41).into())).await;
    let outcome = fleet.outcome(&job).await;
    assert_eq!((outcome.stdout.as_str(), outcome.session.unwrap().alive), ("41\n", true));
    let next = session_job("s", "print(x + 1)");
    fleet.submit_to(&worker.id, &next).await;
    assert_eq!(fleet.outcome(&next).await.stdout, "42\n");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_for_a_paused_session_is_handled_as_soon_as_there_is_a_slot() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(one_slot()).await;
    let code = "import os, signal
def handle(*_): raise TimeoutError
signal.signal(signal.SIGUSR1, handle)
open('pid', 'w').write(str(os.getpid()))
try:
    look.sync()
except TimeoutError:
    print('handled')";
    let mut job = session_job("s", code);
    job.tools = asks().tools;
    fleet.submit_to(&worker.id, &job).await;
    fleet.tool_call(&job).await;
    until_paused(&worker, 1.0).await;
    let busy = python(BUSY);
    fleet.submit(&busy).await;
    let has_it = async {
        while worker.count(CONTAINERS, "busy") != 1.0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within("the slot of the other job", has_it).await;
    let asker = Asker { fleet: &mut fleet, worker: worker.id.clone(), heard: BTreeMap::new() };
    let mut ends = Vec::new();
    let signal = exec("kill -USR1 $(cat pid)");
    asker.send(&signal).await;
    // Nobody answers the call. The first outcome is that of the job that had the slot.
    while ends.len() < 2 {
        let event = asker.fleet.event().await;
        if let EventBody::Result(outcome) = event.body {
            ends.push(outcome.stdout);
        }
    }
    assert_eq!(ends, ["busy\n", "handled\n"]);
    worker.end().await;
}
