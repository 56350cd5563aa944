//! Large answers to tool calls, with the real runner: they are kept within bounds until their runs read them.

use std::time::Duration;

use serde_json::json;
use thermae_schemas::{EventBody, Job, Status, TenantName, ToolCall, ToolReply, ToolSpec};
use thermae_service::units::ByteSize;
use thermae_worker::AnswerOptions;

use crate::harness::{Fleet, Worker, python, within};
use crate::pauses::{CONTAINERS, one_slot, until_paused};

const CALLS: &str = "thermae_worker_tool_calls_total";
const KEPT: &str = "thermae_worker_tool_answer_bytes";
const WRITTEN: &str = "thermae_worker_tool_answers_written_total";

/// Size of a large answer.
const LARGE: usize = 6 << 20;

/// A job that makes `count` calls at once. Prints how many were answered, the total length of the answers, and the codes
/// of the errors.
fn gathers(count: usize) -> Job {
    let mut job = python(&format!(
        "import asyncio\nasync def one(n):\n    try:\n        return len(await look(n=n))\n    \
         except ToolError as error:\n        return str(error).split(':')[0]\n\
         got = await asyncio.gather(*[one(n) for n in range({count})])\n\
         sizes = [one for one in got if isinstance(one, int)]\n\
         print(len(sizes), sum(sizes), sorted(set(got) - set(sizes)))"
    ));
    job.tools = vec![ToolSpec::new("look")];
    (job.limits.wall_ms, job.limits.cpu_ms) = (Some(60_000), Some(60_000));
    job
}

/// A job that keeps its slot until it is cancelled.
fn keeps_its_slot() -> Job {
    let mut job = python("import time\nwhile True: time.sleep(1)");
    job.limits.wall_ms = Some(60_000);
    job
}

async fn until_count(worker: &Worker, name: &str, label: &str, count: f64) {
    let counted = async {
        while worker.count(name, label) != count {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within(name, counted).await;
}

/// Submits a job, and waits for its calls.
async fn calls_of(fleet: &mut Fleet, tenant: &TenantName, job: &Job, count: usize) -> Vec<ToolCall> {
    fleet.submit_as(tenant, job).await;
    let mut calls = Vec::new();
    for _ in 0..count {
        calls.push(fleet.tool_call(job).await);
    }
    calls
}

/// Has a job take the only slot, so that paused runs get none.
async fn take_the_slot(fleet: &Fleet, worker: &Worker) -> Job {
    let busy = keeps_its_slot();
    fleet.submit(&busy).await;
    until_count(worker, CONTAINERS, "busy", 1.0).await;
    busy
}

async fn give_the_slot_back(fleet: &mut Fleet, worker: &Worker, busy: &Job) {
    fleet.cancel(&worker.id, busy).await;
    assert_eq!(fleet.outcome(busy).await.status, Status::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_run_gets_all_the_answers_that_an_unpaused_one_gets() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(one_slot()).await;
    let (tenant, large) = (fleet.tenant.clone(), ToolReply::Ok(json!("x".repeat(LARGE)).into()));
    let mut answered = 0.0;
    for paused in [false, true] {
        let job = gathers(20);
        let calls = calls_of(&mut fleet, &tenant, &job, 20).await;
        let mut busy = None;
        if paused {
            until_paused(&worker, 1.0).await;
            busy = Some(take_the_slot(&fleet, &worker).await);
        }
        for call in &calls {
            fleet.answer(call, large.clone()).await;
            answered += 1.0;
        }
        if let Some(busy) = busy {
            until_count(&worker, CALLS, "ok", answered).await;
            assert_eq!(worker.count(KEPT, ""), 20.0 * (LARGE + 2) as f64, "all of them wait");
            // The client is told to keep further answers back.
            let told = fleet.event_of(&job).await;
            assert!(matches!(told, EventBody::Hold { for_ms: 1.. }), "{told:?}");
            give_the_slot_back(&mut fleet, &worker, &busy).await;
            while fleet.event_of(&job).await != (EventBody::Hold { for_ms: 0 }) {}
        }
        let outcome = fleet.outcome(&job).await;
        assert_eq!(outcome.stdout, format!("20 {} []\n", 20 * LARGE), "paused: {paused}, {outcome:?}");
    }
    assert!(worker.count(WRITTEN, "") >= 15.0, "a run's memory has room for five");
    until_count(&worker, KEPT, "", 0.0).await;
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_the_bounds_calls_are_refused_and_another_tenant_is_served() {
    let mut fleet = Fleet::new().await;
    let mib = ByteSize::mib;
    let mut options = one_slot();
    options.answers = AnswerOptions {
        run_memory: mib(8),
        tenant_memory: mib(16),
        memory: mib(32),
        tenant_disk: mib(20),
        disk: mib(60),
        ..AnswerOptions::default()
    };
    let worker = fleet.worker(options).await;
    let (greedy, other) = (fleet.tenant.clone(), TenantName::new("globex").unwrap());
    let large = ToolReply::Ok(json!("x".repeat(LARGE)).into());
    // Two runs of one tenant: two answers in memory, three on the disk, and the rest nowhere.
    let (first, second, third) = (gathers(10), gathers(10), gathers(4));
    let mut flood = calls_of(&mut fleet, &greedy, &first, 10).await;
    flood.extend(calls_of(&mut fleet, &greedy, &second, 10).await);
    let honest = calls_of(&mut fleet, &other, &third, 4).await;
    until_paused(&worker, 3.0).await;
    let busy = take_the_slot(&fleet, &worker).await;
    for call in &flood {
        fleet.answer(call, large.clone()).await;
    }
    until_count(&worker, CALLS, "tool_answer_limit", 15.0).await;
    until_count(&worker, CALLS, "ok", 5.0).await;
    for call in &honest {
        fleet.answer_as(&other, call, large.clone()).await;
    }
    until_count(&worker, CALLS, "ok", 9.0).await;
    let (memory, disk) = (worker.count(KEPT, "memory"), worker.count(KEPT, "disk"));
    assert_eq!((memory, disk), (3.0 * (LARGE + 2) as f64, 6.0 * (LARGE + 2) as f64));
    give_the_slot_back(&mut fleet, &worker, &busy).await;
    let outcome = fleet.outcome(&third).await;
    assert_eq!(outcome.stdout, format!("4 {} []\n", 4 * LARGE));
    let mut got = 0;
    for job in [&first, &second] {
        let outcome = fleet.outcome(job).await;
        assert!(outcome.stdout.ends_with(" ['tool_answer_limit']\n"), "{outcome:?}");
        got += outcome.stdout.split(' ').next().unwrap().parse::<u32>().unwrap();
    }
    assert_eq!(got, 5);
    until_count(&worker, KEPT, "", 0.0).await;
    worker.end().await;
}
