//! Tool calls.

use std::collections::HashMap;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::serving::Serving;
use crate::test;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("a_call_is_answered", a_call_is_answered),
        test("json_of_any_form_comes_through_as_it_was_written", json_of_any_form_comes_through_as_it_was_written),
        test("json_that_readers_differ_on_is_refused", json_that_readers_differ_on_is_refused),
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
