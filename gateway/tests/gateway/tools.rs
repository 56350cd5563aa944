//! Tool calls.

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::serving::Serving;
use crate::test;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("a_call_is_answered", a_call_is_answered),
        test("an_error_is_raised_in_the_code", an_error_is_raised_in_the_code),
        test("a_call_that_nobody_waits_for_is_over", a_call_that_nobody_waits_for_is_over),
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

    let soon = json!({ "code": "await price()", "limits": { "tool_ms": 200 } });
    let call = called(&serving, "s", soon).await?;
    let path = format!("/v1/runs/s/calls/{}", call["call"].as_str().context("no id")?);
    serving.get("/v1/runs/s?wait=60s").await?;
    serving.post(&path, &json!({ "ok": 1 })).await?.problem(410, "call_over")?;
    serving.end().await
}
