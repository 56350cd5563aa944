//! What one tenant moves through the servers that all share. Beyond its allowance, this tenant waits, and no other.

use std::time::{Duration, Instant};

use serde_json::json;
use thermae_backplane::bus::{ExchangeKind, ExchangeSpec, Message};
use thermae_schemas::{EventBody, Job, Status, Stream, TenantName, ToolReply, ToolSpec, names};
use thermae_service::units::{ByteSize, Millis};
use thermae_worker::Options;

use crate::fake::Script;
use crate::faults::scripted;
use crate::harness::{Fleet, options, pool_name, python, within};

/// An allowance of this many bytes per second. Four seconds' worth are free.
fn allowed(bytes: u64) -> Options {
    let mut options = options();
    options.pools.get_mut(&pool_name()).unwrap().tenant_traffic = Some(ByteSize(bytes));
    options
}

fn calling() -> Job {
    let mut job = python("print(await look())");
    job.tools = vec![ToolSpec::new("look")];
    job
}

/// A job that streams its output.
fn streaming(code: &str, wall_ms: u64) -> Job {
    let mut job = python(code);
    job.stream = vec![Stream::Output];
    job.limits.wall_ms = Some(wall_ms);
    job
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_moved_too_much_waits_and_no_other() {
    let mut fleet = Fleet::new().await;
    let script = Script::new();
    let worker = scripted(&fleet, allowed(4000), &script).await;
    // More than six seconds' worth, so the next job waits for two of them.
    let began = Instant::now();
    fleet.run(&python(&format!("print {}", "x".repeat(25_000)))).await;
    let (next, other) = (python("print next"), python("print other"));
    fleet.submit(&next).await;
    fleet.submit_as(&TenantName::new("globex").unwrap(), &other).await;
    assert_eq!(fleet.outcome(&other).await.stdout, "other");
    // On a busy machine, the two seconds may be over by now.
    assert!(script.starts("print next") == 0 || began.elapsed() > Duration::from_secs(2), "it waits");
    assert_eq!(fleet.outcome(&next).await.stdout, "next");
    assert!(began.elapsed() > Duration::from_secs(2), "{:?}", began.elapsed());
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_job_streams_beyond_its_tenants_allowance_comes_later_and_whole() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(allowed(100_000)).await;
    let job = streaming("for n in range(100): print('x' * 10_000, flush=True)", 120_000);
    let began = Instant::now();
    fleet.submit(&job).await;
    let mut streamed = String::new();
    let outcome = loop {
        match fleet.event_of(&job).await {
            EventBody::Stdout { text, .. } => streamed.push_str(&text),
            EventBody::Result(outcome) => break outcome,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((outcome.status, streamed == outcome.stdout), (Status::Succeeded, true));
    assert!(began.elapsed() > Duration::from_secs(1), "ten seconds' worth, and four are free: {:?}", began.elapsed());
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_in_small_pieces_is_sent_in_few_events_once_the_allowance_is_used_up() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(allowed(10_000)).await;
    // An event costs 4 KiB. Ten of them use up four seconds' worth, and the others would take an hour.
    let job =
        streaming("import os\nfor n in range(5_000): os.write(1, b'x'); os.write(2, b'y')\nprint('end')", 120_000);
    fleet.submit(&job).await;
    let (mut events, mut out, mut err) = (0, String::new(), String::new());
    let outcome = loop {
        match fleet.event_of(&job).await {
            EventBody::Stdout { text, .. } => out.push_str(&text),
            EventBody::Stderr { text, .. } => err.push_str(&text),
            EventBody::Result(outcome) => break outcome,
            other => panic!("{other:?}"),
        }
        events += 1;
    };
    assert_eq!((outcome.status, out == outcome.stdout, err == outcome.stderr), (Status::Succeeded, true, true));
    assert_eq!((outcome.stdout.len(), outcome.stderr.len()), (5_004, 5_000));
    assert!(events < 300, "{events} events");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_whose_output_waits_is_not_taken_for_hung() {
    let mut fleet = Fleet::new().await;
    let mut options = allowed(50_000);
    let pool = options.pools.get_mut(&pool_name()).unwrap();
    (pool.ping_every, pool.ping_within) = (Millis::from_millis(100), Millis::from_secs(10));
    let worker = fleet.worker(options).await;
    // Soon more output waits than there is room for it, so that no more is read until some of it may be sent.
    let mut job = streaming("import os, time\nwhile True: os.write(1, b'x' * 1000); time.sleep(0.001)", 25_000);
    job.limits.output_bytes = Some(8 << 20);
    fleet.submit(&job).await;
    let outcome = fleet.outcome(&job).await;
    assert_eq!(outcome.status, Status::TimedOut, "{:?}", outcome.error);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_that_waits_does_not_outlast_the_jobs_wall_clock() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(allowed(100)).await;
    let job = streaming("import time\nwhile True: print('x' * 1000, flush=True); time.sleep(0.01)", 1000);
    fleet.submit(&job).await;
    // The allowance alone would hold the output back for longer than the outcome is waited for.
    let outcome = fleet.outcome(&job).await;
    assert_eq!(outcome.status, Status::TimedOut);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_no_call_waits_for_wait_apart() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(Options { refused_bytes: ByteSize(1), ..options() }).await;
    let (globex, job) = (TenantName::new("globex").unwrap(), calling());
    fleet.submit(&job).await;
    let call = fleet.tool_call(&job).await;
    let apart = names::calls_apart_queue(&globex, &worker.id);
    // The first answer shows that the tenant sends too many.
    fleet.answer_as(&globex, &call, ToolReply::Ok(json!(0).into())).await;
    let set_apart = async {
        while fleet.bus.queue_depth(&apart).await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within("the tenant's own queue", set_apart).await;
    for n in 1..5 {
        fleet.answer_as(&globex, &call, ToolReply::Ok(json!(n).into())).await;
    }
    // One answer is taken, and its price is waited for. The next one is prefetched.
    let wait = async {
        while fleet.depth(&apart).await != 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within("the others to wait there", wait).await;
    fleet.answer(&call, ToolReply::Ok(json!("mine").into())).await;
    assert_eq!(fleet.outcome(&job).await.stdout, "mine\n");
    assert_eq!(fleet.depth(&apart).await, 2, "those of the other tenant wait on");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_another_tenant_moved_here_cost_the_keys_tenant_nothing() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(Options { refused_bytes: ByteSize(1), ..options() }).await;
    let job = calling();
    fleet.submit(&job).await;
    let call = fleet.tool_call(&job).await;
    let moved = ExchangeSpec {
        name: "replies.globex.x".into(),
        kind: ExchangeKind::Fanout,
        alternate: Some(names::CALLS.into()),
        bindings: Vec::new(),
    };
    fleet.bus.declare_exchange(&moved).await.unwrap();
    let forged = Message { exchange: moved.name, key: call.reply_to.clone(), body: "{}".into(), ..Message::default() };
    fleet.bus.publish(forged).await.unwrap().wait().await.unwrap();
    // This one is behind it in the same queue.
    fleet.answer(&call, ToolReply::Ok(json!("mine").into())).await;
    assert_eq!(fleet.outcome(&job).await.stdout, "mine\n");
    assert_eq!(worker.count("thermae_worker_forged_total", ""), 1.0);
    let apart = names::calls_apart_queue(&fleet.tenant, &worker.id);
    assert_eq!(fleet.bus.queue_depth(&apart).await.unwrap(), None, "it has no queue of its own");
    worker.end().await;
}
