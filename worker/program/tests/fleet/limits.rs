//! Bounds on what one job or one tenant can make a worker hold, and what they are told when they exceed these.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use thermae_schemas::{ErrorCode, InputValue, Job, JsonText, SessionName, Status, TenantName, ToolReply, ToolSpec};
use thermae_service::units::ByteSize;
use thermae_worker::{Bounds, Options};

use crate::fake::{Fake, Script};
use crate::harness::{Fleet, Worker, options, pool_name, python, session_job, within};

fn tools(code: &str) -> Job {
    let mut job = python(code);
    job.tools = vec![ToolSpec::new("look")];
    job
}

/// A job that prints the length of its call's result, or the error.
fn one_call() -> Job {
    tools("try:\n    print(len(await look()))\nexcept ToolError as e:\n    print(e)")
}

fn bounded(change: impl FnOnce(&mut Bounds)) -> Options {
    let mut options = options();
    change(&mut options.pools.get_mut(&pool_name()).unwrap().bounds);
    options
}

async fn scripted(fleet: &Fleet, options: Options) -> Worker {
    fleet.start(options, fleet.registry.clone(), Some(Arc::new(Fake(Script::new())))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn things_displayed_beyond_the_bound_are_left_out_and_a_note_says_so() {
    let mut fleet = Fleet::new().await;
    let worker = scripted(&fleet, options()).await;
    let outcome = fleet.run(&python("shows 5000")).await;
    assert_eq!((outcome.status, outcome.displays.len()), (Status::Succeeded, 1001));
    let note = outcome.displays[1000]["text/plain"].raw().get();
    assert!(note.contains("4000 more not shown") && note.contains("bounds.displays"), "{note}");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_to_display_is_left_out_and_smaller_things_are_not() {
    let mut fleet = Fleet::new().await;
    let worker = scripted(&fleet, bounded(|b| b.display_bytes = ByteSize(100))).await;
    let outcome = fleet.run(&python("show 100")).await;
    let note = outcome.displays[0]["text/plain"].raw().get();
    assert!(note.contains("1 more not shown") && note.contains("100 bytes"), "{note}");
    assert_eq!(json!(fleet.run(&python("show 1")).await.displays[0]["x"]), json!([{"": 0}, 0]));
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn values_beyond_a_million_are_not_shown_and_not_sent() {
    let mut fleet = Fleet::new().await;
    let worker = scripted(&fleet, options()).await;
    let outcome = fleet.run(&python("value 600000")).await;
    let value = outcome.value.unwrap();
    assert!(value["text/plain"].raw().get().contains("more than 1000000 values"), "{value:?}");
    let mut job = tools("call 600000");
    let outcome = fleet.run(&job).await;
    assert!(outcome.stdout.contains("tool_arguments") && outcome.stdout.contains("values"), "{outcome:?}");
    job = tools("call 100000");
    job.tools[0].input_schema = Some((&json!({"type": "object"})).into());
    let outcome = fleet.run(&job).await;
    assert!(outcome.stdout.contains("more than 100000 values"), "{outcome:?}");
    worker.end().await;
}

/// No reader on the way writes JSON anew: not the worker, not the messages, and not the client that reads them.
#[tokio::test(flavor = "multi_thread")]
async fn json_of_any_form_comes_through_as_it_was_written() {
    let mut fleet = Fleet::new().await;
    let worker = scripted(&fleet, options()).await;
    for _ in 0..20 {
        let list = thermae_testkit::json::list(20);
        let text = JsonText::new(list.clone()).unwrap();
        let mut job = tools(&format!(r#"frame {{"call":1,"name":"look","arguments":{{"v":{list}}}}}"#));
        job.tools[0].input_schema = Some(json!({"properties": {"v": {"items": {"not": {"const": "no"}}}}}).into());
        fleet.submit(&job).await;
        let call = fleet.tool_call(&job).await;
        assert_eq!(call.arguments.raw().get(), format!(r#"{{"v":{list}}}"#));
        fleet.answer(&call, ToolReply::Ok(text.clone())).await;
        assert_eq!(fleet.outcome(&job).await.stdout, list);
        let mut job = python("input x");
        job.inputs.insert("x".into(), InputValue::Value(text.clone()));
        assert_eq!(fleet.run(&job).await.stdout, list);
        let outcome = fleet.run(&python(&format!(r#"tell {{"b/x":{list},"a/x":0}}"#))).await;
        assert_eq!(outcome.value.unwrap()["b/x"], text);
    }
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_the_same_to_all_readers_is_refused_with_its_place() {
    let mut fleet = Fleet::new().await;
    let worker = scripted(&fleet, options()).await;
    for (json, why) in [
        (r#"[{"n": 1e400}]"#, "/0/n: number out of range"),
        (r#"[{"a": 1, "\u0061": 2}]"#, "/0/a: the key \"a\" stands twice"),
    ] {
        let outcome =
            fleet.run(&tools(&format!(r#"frame {{"call":1,"name":"look","arguments":{{"v":{json}}}}}"#))).await;
        assert!(outcome.stdout.starts_with("tool_arguments: ") && outcome.stdout.contains(&format!("at /v{why}")));
        let job = tools(r#"frame {"call":1,"name":"look","arguments":{}}"#);
        fleet.submit(&job).await;
        let call = fleet.tool_call(&job).await;
        fleet.answer(&call, ToolReply::Ok(JsonText::new(json.to_owned()).unwrap())).await;
        let outcome = fleet.outcome(&job).await;
        assert!(outcome.stdout.starts_with("tool_answer: ") && outcome.stdout.contains(&format!("at /ok{why}")));
    }
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_call_that_can_t_be_read_is_answered() {
    let mut fleet = Fleet::new().await;
    let worker = scripted(&fleet, options()).await;
    for frame in [r#"{"call":1,"name":7,"arguments":{}}"#, r#"{"call":1,"name":"look","arguments":NaN}"#] {
        let outcome = fleet.run(&tools(&format!("frame {frame}"))).await;
        assert!(outcome.stdout.contains("tool_arguments: the call can't be read"), "{outcome:?}");
    }
    // A call without a number can't be answered: such a runner is broken.
    let outcome = fleet.run(&tools("frame {}")).await;
    assert_eq!((outcome.status, outcome.error.unwrap().code), (Status::Lost, ErrorCode::SandboxLost));
    assert_eq!(fleet.run(&python("print on")).await.stdout, "on");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jobs_tool_calls_are_counted_and_the_code_hears_how_to_have_more() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(bounded(|b| b.tool_calls = 2)).await;
    let job = tools(
        "for _ in range(3):\n    try:\n        print(await look())\n    except ToolError as e:\n        print(e)",
    );
    fleet.submit(&job).await;
    for n in 0..2 {
        let call = fleet.tool_call(&job).await;
        fleet.answer(&call, ToolReply::Ok(json!(n).into())).await;
    }
    let outcome = fleet.outcome(&job).await;
    let lines: Vec<_> = outcome.stdout.lines().collect();
    assert_eq!(lines[..2], ["0", "1"]);
    assert!(lines[2].contains("tool_call_limit") && lines[2].contains("bounds.tool_calls"), "{lines:?}");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_can_t_be_used_is_an_error_in_the_code_and_counted() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    // More than a frame to the container can hold. The container must not end because of it.
    let large = format!(r#""{}""#, "x".repeat(33 << 20));
    let answers =
        [("\"ok\": NaN", "NaN"), ("\"ok\": 1, \"error\": \"e\"", "both"), ("\"error\": [1]", "neither a string")]
            .map(|(a, b)| (a.to_owned(), b));
    let too_large = (format!("\"ok\": {large}"), "are allowed");
    for (rest, said) in answers.into_iter().chain([too_large]) {
        let job = one_call();
        fleet.submit(&job).await;
        let call = fleet.tool_call(&job).await;
        fleet.answer_with(&call, format!("{{\"call\": \"{}\", {rest}}}", call.call)).await;
        let outcome = fleet.outcome(&job).await;
        assert_eq!(outcome.status, Status::Succeeded, "{outcome:?}");
        assert!(outcome.stdout.contains("tool_answer") && outcome.stdout.contains(said), "{}", outcome.stdout);
    }
    assert_eq!(worker.count("thermae_worker_tool_calls_total", "tool_answer"), 4.0);
    // The largest answer that is allowed is accepted.
    let job = one_call();
    fleet.submit(&job).await;
    let call = fleet.tool_call(&job).await;
    let most = "x".repeat((16 << 20) - 2);
    fleet.answer_with(&call, format!("{{\"call\": \"{}\", \"ok\": \"{most}\"}}", call.call)).await;
    assert_eq!(fleet.outcome(&job).await.stdout, format!("{}\n", most.len()));
    assert_eq!(worker.count("thermae_worker_containers_quarantined_total", ""), 0.0);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wall_clock_that_ran_out_over_a_tool_says_so() {
    let mut fleet = Fleet::new().await;
    let worker = scripted(&fleet, options()).await;
    let mut job = tools("waits");
    (job.limits.wall_ms, job.limits.pause_ms) = (Some(1), Some(1));
    let error = fleet.run(&job).await.error.unwrap();
    assert_eq!(error.code, ErrorCode::WallTimeout);
    assert!(error.message.contains("a tool call waited for its answer"), "{error:?}");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_tenant_does_not_take_all_sessions() {
    let mut fleet = Fleet::new().await;
    let mut options = options();
    options.pools.get_mut(&pool_name()).unwrap().max_sessions = 2;
    let worker = scripted(&fleet, options).await;
    for name in ["a", "b", "c"] {
        let job = session_job(name, "print x");
        fleet.submit_to(&worker.id, &job).await;
        fleet.outcome(&job).await;
    }
    let other = TenantName::new("globex").unwrap();
    let job = session_job("z", "print x");
    let message = fleet.assign(&other, &job, Some(worker.id.clone())).await;
    fleet.bus.publish(message).await.unwrap().wait().await.unwrap();
    let outcome = fleet.outcome(&job).await;
    assert_ne!(outcome.error.map(|e| e.code), Some(ErrorCode::SessionLimit));
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_wait_for_a_session_are_bounded_in_bytes() {
    let mut fleet = Fleet::new().await;
    let worker = scripted(&fleet, bounded(|b| b.session_queue_bytes = ByteSize(2000))).await;
    let name = || SessionName::new("s").unwrap();
    let first = session_job("s", "hang");
    fleet.submit_to(&worker.id, &first).await;
    within("the start", async {
        while worker.count("thermae_worker_sessions", "") == 0.0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let mut large = session_job("s", &"#".repeat(3000));
    large.session = Some(thermae_schemas::SessionRequest::new(name()));
    fleet.submit_to(&worker.id, &large).await;
    let outcome = fleet.outcome(&large).await;
    let error = outcome.error.unwrap();
    assert_eq!((outcome.status, error.code), (Status::Rejected, ErrorCode::QuotaExceeded));
    assert!(error.message.contains("bounds.session_queue_bytes"), "{}", error.message);
    fleet.cancel(&worker.id, &first).await;
    fleet.outcome(&first).await;
    worker.end().await;
}
