//! Runs that go on without their SDK, and those that another one takes over.

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use thermae_backplane::bus::Message;
use thermae_schemas::{JsonText, ToolReply, ToolResult};

use crate::contract::sdk::{Sdk, WIDE};
use crate::played::PlayedFleet;
use crate::test;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test(
            "a_run_that_is_taken_over_begins_with_what_it_is_like",
            a_run_that_is_taken_over_begins_with_what_it_is_like,
        ),
        test(
            "runs_that_are_unknown_or_taken_over_end_with_an_error",
            runs_that_are_unknown_or_taken_over_end_with_an_error,
        ),
        test("runs_can_be_asked_for_answered_and_cancelled", runs_can_be_asked_for_answered_and_cancelled),
        test("only_detached_runs_go_on_without_their_connection", only_detached_runs_go_on_without_their_connection),
        test("a_run_that_is_left_is_forgotten", a_run_that_is_left_is_forgotten),
        test("runs_of_an_embedded_fleet_can_be_detached", runs_of_an_embedded_fleet_can_be_detached),
    ]
}

/// An event `run` that answers this question.
fn running(question: &Message, calls: &Value) -> String {
    let id = question.message_id.as_deref().unwrap_or_default();
    json!({ "job": id, "attempt": 1, "event": "run", "run": "j", "state": "waiting", "calls": calls }).to_string()
}

fn call(fleet: &PlayedFleet, id: &str) -> Value {
    json!({ "call": id, "tool": "ask", "arguments": {}, "reply_to": fleet.reply_to,
            "within_ms": 60_000, "waited_ms": 1, "left_ms": 50_000 })
}

async fn attach(fleet: &mut PlayedFleet, sdk: &mut Sdk, id: u64) -> Result<Message> {
    sdk.send(json!({ "type": "attach", "id": id, "window": WIDE, "job": "j", "stdout_from": 5 }), "").await?;
    let (question, query) = fleet.question().await?;
    ensure!(query.take_over && query.job.as_str() == "j" && query.stdout_from == 5, "{query:?}");
    Ok(question)
}

async fn a_run_that_is_taken_over_begins_with_what_it_is_like() -> Result<()> {
    let mut fleet = PlayedFleet::start().await?;
    let mut sdk = fleet.sdk().await?;
    let question = attach(&mut fleet, &mut sdk, 1).await?;
    let mut omitted = call(&fleet, "large");
    omitted["omitted"] = json!(true);
    omitted.as_object_mut().map(|fields| fields.remove("arguments"));
    let answer = running(&question, &json!([call(&fleet, "a"), omitted]));
    fleet.tell(&question, &answer).await?;
    let first = sdk.next().await?;
    ensure!(first.is("event") && first.payload == answer, "{first:?}");

    // The call is not told twice: the next event is the next one of the fleet's.
    let mut event = call(&fleet, "b");
    event["job"] = json!("j");
    event["event"] = json!("tool_call");
    fleet.tell(&question, &event.to_string()).await?;
    let second = sdk.next().await?;
    ensure!(second.payload == event.to_string(), "{second:?}");
    for (id, text, reply) in [
        ("a", r#"{"ok":[1]}"#, ToolReply::Ok(json!([1]).into())),
        ("b", r#"{"error":"no"}"#, ToolReply::Error("no".into())),
    ] {
        sdk.send(json!({ "type": "tool_result", "id": 1, "call": id }), text).await?;
        ensure!(fleet.answer().await? == ToolResult::new(id, reply), "{id}");
    }
    let result = r#"{"job":"j","event":"result","status":"succeeded"}"#;
    fleet.tell(&question, result).await?;
    let rest = sdk.all_of(1).await?;
    ensure!(rest.len() == 2 && rest[0].payload == result && rest[1].is("done"), "{rest:?}");
    sdk.vanish().await?;
    fleet.end().await
}

async fn runs_that_are_unknown_or_taken_over_end_with_an_error() -> Result<()> {
    let mut fleet = PlayedFleet::start().await?;
    let mut sdk = fleet.sdk().await?;
    // The client asks for a moment whether the fleet knows the run now.
    let mut question = attach(&mut fleet, &mut sdk, 1).await?;
    let error = loop {
        let id = question.message_id.clone().unwrap_or_default();
        let unknown = json!({ "job": id, "event": "run", "run": "j", "state": "unknown" }).to_string();
        fleet.tell(&question, &unknown).await?;
        tokio::select! {
            error = sdk.all_of(1) => break error?,
            again = fleet.question() => question = again?.0,
        }
    };
    ensure!(error.len() == 1 && error[0].code() == "unknown_run", "{error:?}");

    // In the same connection: the second request has the run then, and the first one does not.
    let question = attach(&mut fleet, &mut sdk, 2).await?;
    fleet.tell(&question, &running(&question, &json!([call(&fleet, "a")]))).await?;
    ensure!(sdk.next().await?.is("event"));
    let again = attach(&mut fleet, &mut sdk, 3).await?;
    ensure!(again.correlation_id == question.correlation_id && again.reply_to == question.reply_to);
    fleet.tell(&again, &running(&again, &json!([call(&fleet, "a")]))).await?;
    let (mut superseded, mut told) = (false, false);
    while !(superseded && told) {
        let frame = sdk.next().await?;
        superseded |= frame.id() == Some(2) && frame.code() == "superseded";
        told |= frame.id() == Some(3) && frame.is("event");
    }
    sdk.send(json!({ "type": "tool_result", "id": 2, "call": "a" }), r#"{"ok":2}"#).await?;
    sdk.send(json!({ "type": "tool_result", "id": 3, "call": "a" }), r#"{"ok":3}"#).await?;
    ensure!(fleet.answer().await?.reply == ToolReply::Ok(json!(3).into()));

    // Elsewhere.
    fleet.tell(&again, r#"{"job":"j","event":"superseded"}"#).await?;
    let error = sdk.all_of(3).await?;
    ensure!(error.len() == 1 && error[0].code() == "superseded", "{error:?}");
    sdk.vanish().await?;
    fleet.end().await
}

async fn runs_can_be_asked_for_answered_and_cancelled() -> Result<()> {
    let mut fleet = PlayedFleet::start().await?;
    let mut sdk = fleet.sdk().await?;
    sdk.send(json!({ "type": "run_info", "id": 1, "job": "j", "stderr_from": 7 }), "").await?;
    let (question, query) = fleet.question().await?;
    ensure!(!query.take_over && (query.stdout_from, query.stderr_from) == (0, 7), "{query:?}");
    let answer = running(&question, &json!([call(&fleet, "a")]));
    fleet.tell(&question, &answer).await?;
    let done = sdk.next().await?;
    ensure!(done.is("done") && done.payload == answer, "{done:?}");

    let reply_to = fleet.reply_to.clone();
    sdk.send(json!({ "type": "answer", "id": 2, "call": "a", "reply_to": reply_to }), r#"{"ok":[0.10]}"#).await?;
    ensure!(sdk.next().await?.is("done"));
    ensure!(fleet.answer().await? == ToolResult::new("a", ToolReply::Ok(JsonText::new("[0.10]".to_owned())?)));
    for (id, reply_to) in [(3, "acme.gone"), (4, "other.w-1")] {
        sdk.send(json!({ "type": "answer", "id": id, "call": "a", "reply_to": reply_to }), r#"{"ok":1}"#).await?;
        let error = sdk.next().await?;
        ensure!(error.id() == Some(id) && error.code() == "unknown_call", "{error:?}");
    }
    sdk.send(json!({ "type": "cancel_run", "id": 5, "job": "j" }), "").await?;
    ensure!(sdk.next().await?.is("done") && fleet.cancel().await? == "j");
    sdk.vanish().await?;
    fleet.end().await
}

async fn only_detached_runs_go_on_without_their_connection() -> Result<()> {
    let mut fleet = PlayedFleet::start().await?;
    for close in [false, true] {
        let mut sdk = fleet.sdk().await?;
        let header = json!({ "type": "run", "id": 1, "window": WIDE, "detached": true });
        sdk.send(header, json!({ "id": "goes-on", "code": "" }).to_string()).await?;
        let told = sdk.next().await?;
        ensure!(told.header == json!({ "type": "submitted", "id": 1 }), "{told:?}");
        sdk.run(2, WIDE, json!({ "code": "" })).await?;
        fleet.job().await?;
        fleet.job().await?;
        if close {
            sdk.send(json!({ "type": "close" }), "").await?;
            let error = sdk.all_of(1).await?;
            ensure!(error.len() == 1 && error[0].code() == "closed", "{error:?}");
        }
        sdk.vanish().await?;
        ensure!(fleet.cancel().await? == "job-2");
    }
    // Nothing but an explicit cancel cancels it: this is the next one.
    let mut sdk = fleet.sdk().await?;
    let header = json!({ "type": "run", "id": 1, "window": WIDE, "detached": true });
    sdk.send(header, json!({ "id": "ends", "code": "" }).to_string()).await?;
    let job = fleet.job().await?;
    sdk.send(json!({ "type": "cancel", "id": 1 }), "").await?;
    ensure!(fleet.cancel().await? == "ends");
    fleet.tell(&job, r#"{"job":"ends","event":"result","status":"cancelled"}"#).await?;
    let all = sdk.all_of(1).await?;
    ensure!(all.last().is_some_and(|last| last.is("done")), "{all:?}");
    sdk.vanish().await?;
    fleet.end().await
}

async fn a_run_that_is_left_is_forgotten() -> Result<()> {
    let mut fleet = PlayedFleet::start().await?;
    let mut sdk = fleet.sdk().await?;
    let question = attach(&mut fleet, &mut sdk, 1).await?;
    fleet.tell(&question, &running(&question, &json!([call(&fleet, "a")]))).await?;
    ensure!(sdk.next().await?.is("event"));
    sdk.send(json!({ "type": "detach", "id": 1 }), "").await?;
    let done = sdk.all_of(1).await?;
    ensure!(done.len() == 1 && done[0].is("done"), "{done:?}");
    fleet.tell(&question, r#"{"job":"j","event":"stdout","seq":0,"text":"unheard"}"#).await?;
    // A request to a session has nothing to leave, and neither has one that ended.
    sdk.send(json!({ "type": "detach", "id": 1 }), "").await?;
    let question = attach(&mut fleet, &mut sdk, 2).await?;
    fleet.tell(&question, &running(&question, &json!([call(&fleet, "a")]))).await?;
    let first = sdk.next().await?;
    ensure!(first.id() == Some(2) && first.is("event"), "{first:?}");
    sdk.send(json!({ "type": "tool_result", "id": 2, "call": "a" }), r#"{"ok":1}"#).await?;
    ensure!(fleet.answer().await?.call == "a", "the call waited");
    sdk.vanish().await?;
    fleet.end().await
}

async fn runs_of_an_embedded_fleet_can_be_detached() -> Result<()> {
    let mut sdk = Sdk::embedded(json!({ "slots": 1, "warm": 1 })).await?;
    let job = json!({ "id": "j", "code": "print(await ask())", "tools": [{ "name": "ask" }] });
    sdk.send(json!({ "type": "run", "id": 1, "window": WIDE, "detached": true }), job.to_string()).await?;
    let mut call = Value::Null;
    let mut submitted = false;
    while call.is_null() || !submitted {
        let told = sdk.next().await?;
        submitted |= told.is("submitted");
        if told.is("event") {
            call = serde_json::from_slice(&told.payload)?;
        }
    }
    let answer = json!({ "type": "answer", "id": 2, "call": call["call"], "reply_to": call["reply_to"] });
    sdk.send(answer, r#"{"ok":"by hand"}"#).await?;
    let outcome = sdk.outcome(1).await?;
    ensure!(outcome.stdout == "by hand\n", "{outcome:?}");
    sdk.vanish().await
}
