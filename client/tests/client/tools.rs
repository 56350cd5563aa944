//! Answering tool calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use thermae_backplane::bus::{Bus, Consumer, QueueSpec};
use thermae_client::ToolHandler;
use thermae_schemas::{EventBody, JobId, ToolCall, ToolFailure, ToolReply, ToolResult, WorkerId, names};
use tokio::sync::Barrier;
use tokio_util::sync::CancellationToken;

use super::{Fleet, job, soon, tenant};

fn typed() -> ToolFailure {
    ToolFailure { kind: Some("KeyError".into()), message: "'x'".into(), data: Some(json!({ "key": "x" }).into()) }
}

struct Tools {
    together: Barrier,
    calls: AtomicUsize,
    /// A call of `sleeps` was given up.
    given_up: CancellationToken,
}

#[async_trait]
impl ToolHandler for Tools {
    async fn call(&self, _: &JobId, tool: &str, arguments: Box<RawValue>) -> Result<Box<RawValue>, ToolFailure> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        match tool {
            "add" => {
                let read: Value = serde_json::from_str(arguments.get()).unwrap();
                Ok(to_raw_value(&(read["a"].as_i64().unwrap() + read["b"].as_i64().unwrap())).unwrap())
            }
            "together" => {
                self.together.wait().await;
                Ok(arguments)
            }
            "typed" => Err(typed()),
            "fails" => Err("no such city".into()),
            "sleeps" => {
                let _given_up = self.given_up.clone().drop_guard();
                std::future::pending().await
            }
            _ => panic!("boom"),
        }
    }
}

fn tools() -> Arc<Tools> {
    Arc::new(Tools { together: Barrier::new(3), calls: AtomicUsize::new(0), given_up: CancellationToken::new() })
}

fn worker() -> WorkerId {
    WorkerId::new("w-1").unwrap()
}

fn call(call: &str, tool: &str, arguments: Value) -> EventBody {
    EventBody::ToolCall(ToolCall {
        call: call.to_owned(),
        tool: tool.to_owned(),
        arguments: arguments.into(),
        reply_to: names::calls_key(&tenant(), &worker()),
        within_ms: if tool == "sleeps" { 20 } else { 90_000 },
    })
}

async fn answers(fleet: &Fleet) -> Box<dyn Consumer> {
    let spec = QueueSpec::calls(&worker());
    fleet.bus.declare_queue(&spec).await.unwrap();
    fleet.bus.consume(&spec.name, 0).await.unwrap()
}

async fn answer(answers: &mut Box<dyn Consumer>) -> ToolResult {
    let message = soon(answers.next()).await.unwrap().message;
    assert_eq!(message.user_id.as_deref(), Some("acme"), "an answer says who sent it");
    serde_json::from_slice(&message.body).unwrap()
}

#[tokio::test]
async fn calls_are_answered_whatever_the_tool_does() {
    let mut fleet = Fleet::new().await;
    let client = fleet.client().await;
    let _handle = client.submit(job("j"), Some(tools())).await.unwrap();
    let message = fleet.take().await;
    let mut answers = answers(&fleet).await;
    fleet.tell(&message, call("1", "add", json!({"a": 2, "b": 3}))).await;
    assert_eq!(answer(&mut answers).await, ToolResult::new("1", ToolReply::Ok(json!(5).into())));
    fleet.tell(&message, call("2", "fails", json!({}))).await;
    assert_eq!(answer(&mut answers).await, ToolResult::new("2", ToolReply::Error("no such city".into())));
    fleet.tell(&message, call("3", "explodes", json!({}))).await;
    let ToolReply::Error(failure) = answer(&mut answers).await.reply else { panic!("no error") };
    assert!(failure.message.contains("panicked"), "{failure:?}");
}

#[tokio::test]
async fn answers_are_kept_back_while_their_run_reads_none() {
    let mut fleet = Fleet::new().await;
    let client = fleet.client().await;
    let tools = tools();
    let (handle, _other) = (
        client.submit(job("j"), Some(tools.clone())).await.unwrap(),
        client.submit(job("k"), Some(tools.clone())).await.unwrap(),
    );
    let (message, other) = (fleet.take().await, fleet.take().await);
    let mut answers = answers(&fleet).await;
    let (hold, sum) = (EventBody::Hold { for_ms: 60_000 }, json!({ "a": 1, "b": 1 }));
    fleet.tell(&message, hold.clone()).await;
    fleet.tell(&message, call("kept", "add", sum.clone())).await;
    fleet.tell(&other, call("sent", "add", sum.clone())).await;
    assert_eq!(answer(&mut answers).await.call, "sent", "another run reads");
    fleet.tell(&message, EventBody::Hold { for_ms: 0 }).await;
    assert_eq!(answer(&mut answers).await.call, "kept");
    // At the end of the run, nobody wants what was kept back.
    fleet.tell(&message, hold).await;
    fleet.tell(&message, call("dropped", "add", sum.clone())).await;
    fleet.end(&message, "").await;
    soon(handle.result()).await.unwrap();
    fleet.tell(&other, call("last", "add", sum)).await;
    assert_eq!(answer(&mut answers).await.call, "last");
    assert_eq!(tools.calls.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn a_call_whose_time_is_over_gets_no_answer_and_does_not_run_again() {
    let mut fleet = Fleet::new().await;
    let client = fleet.client().await;
    let tools = tools();
    let _handle = client.submit(job("j"), Some(tools.clone())).await.unwrap();
    let message = fleet.take().await;
    let mut answers = answers(&fleet).await;
    fleet.tell(&message, call("late", "sleeps", json!({}))).await;
    soon(tools.given_up.cancelled()).await;
    fleet.tell(&message, call("late", "sleeps", json!({}))).await;
    fleet.tell(&message, call("next", "add", json!({"a": 1, "b": 1}))).await;
    // The worker has told the code that the first call was late, and an answer beside could come before it.
    assert_eq!(answer(&mut answers).await.call, "next");
    assert_eq!(tools.calls.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn the_type_of_an_error_reaches_the_job() {
    let mut fleet = Fleet::new().await;
    let client = fleet.client().await;
    let _handle = client.submit(job("j"), Some(tools())).await.unwrap();
    let message = fleet.take().await;
    let mut answers = answers(&fleet).await;
    fleet.tell(&message, call("1", "typed", json!({}))).await;
    assert_eq!(answer(&mut answers).await, ToolResult::new("1", ToolReply::Error(typed())));
}

#[tokio::test]
async fn calls_run_side_by_side() {
    let mut fleet = Fleet::new().await;
    let client = fleet.client().await;
    let _handle = client.submit(job("j"), Some(tools())).await.unwrap();
    let message = fleet.take().await;
    let mut answers = answers(&fleet).await;
    // Each waits for the two others.
    for id in ["1", "2", "3"] {
        fleet.tell(&message, call(id, "together", json!({ "id": id }))).await;
    }
    for _ in 0..3 {
        let answer = answer(&mut answers).await;
        assert_eq!(answer.reply, ToolReply::Ok(json!({ "id": answer.call }).into()));
    }
}

#[tokio::test]
async fn a_repeated_call_runs_once_and_is_answered_again() {
    let mut fleet = Fleet::new().await;
    let client = fleet.client().await;
    let tools = tools();
    let _handle = client.submit(job("j"), Some(tools.clone())).await.unwrap();
    let message = fleet.take().await;
    let mut answers = answers(&fleet).await;
    for _ in 0..2 {
        fleet.tell(&message, call("same", "add", json!({"a": 1, "b": 1}))).await;
        assert_eq!(answer(&mut answers).await.reply, ToolReply::Ok(json!(2).into()));
    }
    assert_eq!(tools.calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn without_a_handler_the_code_is_told() {
    let mut fleet = Fleet::new().await;
    let client = fleet.client().await;
    let _handle = client.submit(job("j"), None).await.unwrap();
    let message = fleet.take().await;
    let mut answers = answers(&fleet).await;
    fleet.tell(&message, call("1", "add", json!({}))).await;
    assert!(matches!(answer(&mut answers).await.reply, ToolReply::Error(_)));
}
