//! Tool calls.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::FutureExt;
use libtest_mimic::Trial;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use thermae_fleet::{AnswerOptions, ByteSize, EmbeddedOptions, Millis};
use thermae_gateway::Options;
use thermae_schemas::JobId;

use crate::http::{Answer, Connection};
use crate::serving::{Serving, TOKEN, head};
use crate::test;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("a_call_is_answered", a_call_is_answered),
        test("json_of_any_form_comes_through_as_it_was_written", json_of_any_form_comes_through_as_it_was_written),
        test("json_that_readers_differ_on_is_refused", json_that_readers_differ_on_is_refused),
        test("an_error_is_raised_in_the_code", an_error_is_raised_in_the_code),
        test("a_call_that_nobody_waits_for_is_over", a_call_that_nobody_waits_for_is_over),
        test("a_sender_waits_while_the_run_reads_nothing", a_sender_waits_while_the_run_reads_nothing),
    ]
}

/// Submits a job that calls tools, and waits for its first call.
async fn called(serving: &Serving, id: &str, job: Value) -> Result<Value> {
    let mut job = job;
    job["id"] = json!(id);
    job["tools"] = json!([{ "name": "price" }]);
    let run = serving.post("/v1/runs?wait=60s&until=call", &job).await?;
    ensure!(run.status == 202, "{run:?}");
    let calls = run.json()?["calls"].clone();
    calls.get(0).cloned().with_context(|| format!("no call: {run:?}"))
}

async fn a_call_is_answered() -> Result<()> {
    let serving = Serving::new().await?;
    let code = "print(await price(item='figs', n=1180591620717411303424))";
    let call = called(&serving, "r", json!({ "code": code })).await?;
    ensure!(call["tool"] == "price" && call["arguments"]["item"] == "figs", "{call}");
    ensure!(call["left_ms"].as_u64() <= call["within_ms"].as_u64(), "{call}");
    let text = String::from_utf8(serving.get("/v1/runs/r").await?.body)?;
    ensure!(text.contains("1180591620717411303424"), "arguments keep every digit: {text}");
    let path = format!("/v1/runs/r/calls/{}", call["call"].as_str().context("no id")?);

    for bad in [json!({}), json!({ "okay": 1 }), json!(null), json!({ "ok": 1, "error": "x" })] {
        serving.post(&path, &bad).await?.problem(400, "bad_body")?;
    }
    serving.post("/v1/runs/r/calls/none", &json!({ "ok": 1 })).await?.problem(404, "unknown_call")?;
    serving.post("/v1/runs/other/calls/none", &json!({ "ok": 1 })).await?.problem(404, "unknown_run")?;
    let answered = serving.post(&path, &json!({ "ok": 7 })).await?;
    ensure!(answered.status == 204 && answered.body.is_empty(), "{answered:?}");
    let run = serving.get("/v1/runs/r?wait=60s").await?.json()?;
    ensure!(run["outcome"]["stdout"] == "7\n" && run["calls"] == json!([]), "{run}");
    ensure!(serving.post(&path, &json!({ "ok": 7 })).await?.status == 204, "the same answer again");
    serving.post(&path, &json!({ "ok": 8 })).await?.problem(409, "call_answered")?;
    serving.end().await
}

/// Python keeps integers and the order of keys, and writes fractions in its own way. So the program says what its
/// Python makes of the text, and how it writes that.
async fn json_of_any_form_comes_through_as_it_was_written() -> Result<()> {
    #[derive(Deserialize)]
    struct Run<'a> {
        #[serde(borrow, default)]
        calls: Vec<Call<'a>>,
        #[serde(borrow)]
        outcome: Option<Outcome<'a>>,
    }
    #[derive(Deserialize)]
    struct Call<'a> {
        call: String,
        #[serde(borrow)]
        arguments: &'a RawValue,
    }
    #[derive(Deserialize)]
    struct Outcome<'a> {
        stdout: String,
        #[serde(borrow)]
        value: HashMap<String, &'a RawValue>,
    }
    let serving = Serving::new().await?;
    let list = thermae_testkit::json::list(100);
    let code = r#"
import json
class Shown:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"application/json": x, "text/plain": ""}
print(repr(x) == repr(json.loads(text)))
print(repr(await price(v=x)) == repr(x))
print(json.dumps(x, ensure_ascii=False, separators=(",", ":")))
Shown()
"#;
    let job = format!(
        r#"{{"id":"r","code":{},"tools":[{{"name":"price","input_schema":{{"type":"object"}}}}],"inputs":{{"x":{{"value":{list}}},"text":{{"value":{}}}}}}}"#,
        json!(code),
        json!(list)
    );
    let json = "Content-Type: application/json\r\n";
    let asked = serving.ask("POST", "/v1/runs?wait=60s&until=call", json, job.as_bytes()).await?;
    let asked: Run<'_> = serde_json::from_slice(&asked.body).with_context(|| format!("{asked:?}"))?;
    let call = asked.calls.first().context("no call")?;
    let answer = format!(r#"{{"ok":{list}}}"#);
    let answered = serving.ask("POST", &format!("/v1/runs/r/calls/{}", call.call), json, answer.as_bytes()).await?;
    ensure!(answered.status == 204, "{answered:?}");
    let ended = serving.get("/v1/runs/r?wait=60s").await?;
    let ended: Run<'_> = serde_json::from_slice(&ended.body).with_context(|| format!("{ended:?}"))?;
    let outcome = ended.outcome.context("no outcome")?;
    let written = outcome.stdout.strip_prefix("True\nTrue\n").with_context(|| format!("{list}: {}", outcome.stdout))?;
    let written = written.trim_end();
    ensure!(call.arguments.get() == format!(r#"{{"v":{written}}}"#), "{}", call.arguments);
    ensure!(outcome.value["application/json"].get() == written, "{}", outcome.value["application/json"]);
    serving.end().await
}

async fn json_that_readers_differ_on_is_refused() -> Result<()> {
    let serving = Serving::new().await?;
    let call = called(&serving, "r", json!({ "code": "print(await price())" })).await?;
    let path = format!("/v1/runs/r/calls/{}", call["call"].as_str().context("no id")?);
    let send = async |path: &str, body: String| {
        serving.ask("POST", path, "Content-Type: application/json\r\n", body.as_bytes()).await
    };
    for (json, why) in [
        (r#"[{"n": 1e400}]"#, "/0/n: number out of range"),
        (r#"[{"a": 1, "a": 2}]"#, "/0/a: the key \"a\" stands twice"),
    ] {
        let refused = send(&path, format!(r#"{{"ok":{json}}}"#)).await?.problem(400, "bad_body")?;
        ensure!(refused["detail"].as_str().is_some_and(|text| text.contains(&format!("at /ok{why}"))), "{refused}");
        let job = format!(r#"{{"id":"q","code":"","inputs":{{"x":{{"value":{json}}}}}}}"#);
        let refused = send("/v1/runs", job).await?.problem(422, "schema_violation")?;
        let at = format!("at /inputs/x/value{why}");
        ensure!(refused["detail"].as_str().is_some_and(|text| text.contains(&at)), "{refused}");
    }
    ensure!(serving.post(&path, &json!({ "ok": 7 })).await?.status == 204, "the call still waits");
    serving.end().await
}

async fn an_error_is_raised_in_the_code() -> Result<()> {
    let serving = Serving::new().await?;
    let code = "try:\n    await price(item='gold')\nexcept KeyError as error:\n    print(type(error).__name__, error)";
    let call = called(&serving, "r", json!({ "code": code })).await?;
    let path = format!("/v1/runs/r/calls/{}", call["call"].as_str().context("no id")?);
    let error = json!({ "error": { "type": "KeyError", "message": "not for sale" } });
    ensure!(serving.post(&path, &error).await?.status == 204);
    let run = serving.get("/v1/runs/r?wait=60s").await?.json()?;
    ensure!(run["outcome"]["stdout"].as_str().is_some_and(|text| text.contains("not for sale")), "{run}");
    serving.end().await
}

async fn a_call_that_nobody_waits_for_is_over() -> Result<()> {
    let serving = Serving::new().await?;
    let call = called(&serving, "r", json!({ "code": "await price()" })).await?;
    let path = format!("/v1/runs/r/calls/{}", call["call"].as_str().context("no id")?);
    serving.ask("DELETE", "/v1/runs/r?wait=60s", "", b"").await?;
    serving.post(&path, &json!({ "ok": 1 })).await?.problem(410, "call_over")?;

    let soon = json!({ "code": "await price()", "limits": { "tool_ms": 3000 } });
    let call = called(&serving, "s", soon).await?;
    let path = format!("/v1/runs/s/calls/{}", call["call"].as_str().context("no id")?);
    serving.get("/v1/runs/s?wait=60s").await?;
    serving.post(&path, &json!({ "ok": 1 })).await?.problem(410, "call_over")?;
    serving.end().await
}

/// Waits until a run is in this state.
async fn until_state(serving: &Serving, run: &str, state: &str) -> Result<()> {
    while serving.get(&format!("/v1/runs/{run}/info")).await?.json()?["state"] != state {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Waits until answers of this run are kept back.
async fn until_kept_back(serving: &Serving, run: &str) -> Result<()> {
    let run = JobId::new(run)?;
    while serving.client().may_answer(&run, Duration::from_secs(3600)).now_or_never().is_some() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

async fn a_sender_waits_while_the_run_reads_nothing() -> Result<()> {
    // Whatever a run does not read is on the disk.
    let answers = AnswerOptions { run_memory: ByteSize(0), ..AnswerOptions::default() };
    let mut embedded = EmbeddedOptions { slots: Some(1), warm: Some(1), answers, ..EmbeddedOptions::default() };
    embedded.limits.ceiling.wall = Millis::from_secs(3600);
    let serving = Serving::in_front_of(embedded, Options::default()).await?;
    let waits = json!({
        "code": "import asyncio\nprint(sum(map(len, await asyncio.gather(*[price(n=n) for n in range(6)]))))",
        "limits": { "tool_ms": 3_600_000, "pause_ms": 3_600_000 },
    });
    let ends = ["read", "cancelled"];
    for end in ends {
        called(&serving, end, waits.clone()).await?;
        until_state(&serving, end, "paused").await?;
    }
    let busy = json!({ "id": "busy", "code": "import time; time.sleep(3600)", "limits": { "wall_ms": 3_600_000 } });
    ensure!(serving.post("/v1/runs", &busy).await?.status == 202);
    until_state(&serving, "busy", "running").await?;

    let (size, mut senders) = (1 << 20, Vec::new());
    let body = json!({ "ok": "x".repeat(size) }).to_string();
    for end in ends {
        let run = serving.get(&format!("/v1/runs/{end}")).await?.json()?;
        let calls = run["calls"].as_array().context("no calls")?.iter().filter_map(|call| call["call"].as_str());
        let mut requests = calls.map(|call| {
            let headers = format!("Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n");
            head("POST", &format!("/v1/runs/{end}/calls/{call}"), &headers, body.len()) + &body
        });
        // The first answer finds the run as it was, and so does the one that is on its way.
        let (on_its_way, first) = requests.next().zip(requests.next()).context("too few calls")?;
        let (sent, rest) = on_its_way.as_bytes().split_at(size / 2);
        let mut connection = Connection::open(serving.addr).await?;
        connection.send(sent).await?;
        serving.held(size / 2..usize::MAX).await?;
        let first = sent_whole(serving.addr, first).await?;
        ensure!(first.status == 204, "{first:?}");
        until_kept_back(&serving, end).await?;
        connection.send(rest).await?;
        // It counts as it came, and as it leaves.
        serving.held(2 * size..usize::MAX).await?;
        senders.push((end, tokio::spawn(async move { connection.answer(true).await })));
        senders.extend(requests.map(|request| (end, tokio::spawn(sent_whole(serving.addr, request)))));
    }
    serving.ask("DELETE", "/v1/runs/cancelled?wait=60s", "", b"").await?;
    for (_, sender) in senders.extract_if(.., |(end, _)| *end == "cancelled") {
        sender.await??.problem(410, "call_over")?;
    }
    // Nothing of the other bodies was read.
    serving.held(2 * size..3 * size).await?;
    ensure!(senders.len() == 5 && senders.iter().all(|(_, sender)| !sender.is_finished()), "they wait");
    serving.ask("DELETE", "/v1/runs/busy?wait=60s", "", b"").await?;
    let run = serving.get("/v1/runs/read?wait=60s").await?.json()?;
    ensure!(run["outcome"]["stdout"] == format!("{}\n", 6 * size), "{run}");
    for (_, sender) in senders {
        let answer = sender.await??;
        ensure!(answer.status == 204, "{answer:?}");
    }
    serving.held(0..size).await?;
    serving.end().await
}

/// Sends a request, and waits for the answer.
async fn sent_whole(addr: SocketAddr, request: String) -> Result<Answer> {
    let mut connection = Connection::open(addr).await?;
    connection.send(request).await?;
    connection.answer(true).await
}
