//! Runs that were submitted through another gateway of the same fleet.

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::serving::Serving;
use crate::test;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("any_run_can_be_asked_for_and_answered", any_run_can_be_asked_for_and_answered),
        test("a_run_is_taken_over", a_run_is_taken_over),
        test("many_requests_take_one_run_over", many_requests_take_one_run_over),
        test("a_run_that_the_fleet_does_not_know_is_unknown", a_run_that_the_fleet_does_not_know_is_unknown),
        test("a_run_that_waits_in_its_queue_is_queued", a_run_that_waits_in_its_queue_is_queued),
    ]
}

const CODE: &str = "print('one é', flush=True)
print(await price(n=1180591620717411303424))
print(await price(n=2))
";

/// Two gateways of one fleet. Through the first one, a job was submitted that calls a tool twice, and the first call
/// waits.
async fn two() -> Result<(Serving, Serving)> {
    let first = Serving::new().await?;
    let second = first.another().await?;
    let job = json!({ "id": "r", "code": CODE, "tools": [{ "name": "price" }] });
    let run = first.post("/v1/runs?wait=60s&until=call", &job).await?;
    ensure!(run.status == 202 && run.json()?["calls"][0]["tool"] == "price", "{run:?}");
    Ok((first, second))
}

async fn take_over(serving: &Serving) -> Result<Value> {
    let taken = serving.ask("POST", "/v1/runs/r/take-over", "", b"").await?;
    ensure!(matches!(taken.status, 200 | 202), "{taken:?}");
    taken.json()
}

/// Answers the first call that waits.
async fn answer(serving: &Serving, calls: &Value, ok: Value) -> Result<()> {
    let call = calls[0]["call"].as_str().with_context(|| format!("no call: {calls}"))?;
    let answered = serving.post(&format!("/v1/runs/r/calls/{call}"), &json!({ "ok": ok })).await?;
    ensure!(answered.status == 204, "{answered:?}");
    Ok(())
}

async fn any_run_can_be_asked_for_and_answered() -> Result<()> {
    let (first, second) = two().await?;
    let told = second.get("/v1/runs/r/info?stdout_from=4").await?;
    let text = String::from_utf8(told.body.clone())?;
    let info = told.json()?;
    ensure!(told.status == 200 && info["run"] == "r" && info["attempt"] == 1, "{told:?}");
    ensure!(["running", "waiting", "paused"].iter().any(|state| info["state"] == *state), "{info}");
    ensure!(text.contains("1180591620717411303424"), "arguments keep every digit: {text}");
    ensure!(info["stdout"]["from"] == 4 && info["stdout"]["data"] == "w6kK", "{info}");
    ensure!(info.get("job").is_none() && info.get("event").is_none(), "{info}");

    second.get("/v1/runs/r").await?.problem(404, "unknown_run")?;
    second.post("/v1/runs/r/calls/none", &json!({ "ok": 1 })).await?.problem(404, "unknown_call")?;
    let path = format!("/v1/runs/r/calls/{}", info["calls"][0]["call"].as_str().context("no id")?);
    second.post(&path, &json!({ "okay": 1 })).await?.problem(400, "bad_body")?;
    answer(&second, &info["calls"], json!(7)).await?;
    // The gateway that follows the run goes on as before.
    let mut events = first.follow("GET", "/v1/runs/r/events", "Last-Event-ID: 1\r\n", b"").await?;
    let event = events.next().await?.context("no event")?;
    ensure!(event.event == "tool_call" && event.data["arguments"]["n"] == 2, "{event:?}");
    answer(&first, &json!([event.data]), json!(8)).await?;
    let run = first.get("/v1/runs/r?wait=60s").await?.json()?;
    ensure!(run["outcome"]["stdout"] == "one é\n7\n8\n" && run["outcome"]["usage"]["tool_calls"] == 2, "{run}");
    let ended = second.get("/v1/runs/r/info").await?.json()?;
    ensure!(ended["state"] == "ended" && ended.get("calls").is_none(), "{ended}");
    second.leave().await?;
    first.end().await
}

async fn a_run_is_taken_over() -> Result<()> {
    let (first, second) = two().await?;
    let mut lost = first.follow("GET", "/v1/runs/r/events", "Last-Event-ID: 1\r\n", b"").await?;
    let taken = take_over(&second).await?;
    ensure!(taken["state"] == "underway" && taken["calls"][0]["arguments"].is_object(), "{taken}");
    let event = lost.next().await?.context("no event")?;
    ensure!(event.event == "error" && event.data["code"] == "superseded", "{event:?}");
    let before = first.get("/v1/runs/r?wait=60s").await?.json()?;
    ensure!(before["state"] == "unknown" && before["error"]["code"] == "superseded", "{before}");

    answer(&second, &taken["calls"], json!(7)).await?;
    let run = second.get("/v1/runs/r?wait=60s&until=call").await?.json()?;
    ensure!(run["calls"][0]["arguments"]["n"] == 2, "{run}");
    ensure!(take_over(&second).await?["calls"][0]["call"] == run["calls"][0]["call"], "it is taken over already");
    answer(&second, &run["calls"], json!(8)).await?;
    let run = second.get("/v1/runs/r?wait=60s").await?.json()?;
    ensure!(run["outcome"]["stdout"] == "one é\n7\n8\n", "{run}");
    let mut events = second.follow("GET", "/v1/runs/r/events", "", b"").await?;
    let kinds: Vec<String> = events.rest().await?.into_iter().map(|told| told.event).collect();
    ensure!(kinds == ["run", "tool_call", "tool_call", "result"], "{kinds:?}");

    // An outcome can be had anywhere, and another job under the id can't.
    let again = take_over(&first).await?;
    ensure!(again["outcome"] == run["outcome"], "{again}");
    ensure!(first.get("/v1/runs/r").await?.json()? == again);
    first.post("/v1/runs", &json!({ "id": "r", "code": "1" })).await?.problem(409, "id_conflict")?;
    first.metric("thermae_gateway_runs{state=\"ended\"} 1").await?;
    first.metric("thermae_gateway_runs{state=\"underway\"} 0").await?;
    second.leave().await?;
    first.end().await
}

async fn many_requests_take_one_run_over() -> Result<()> {
    let (first, second) = two().await?;
    let asked = (0..8).map(|_| second.ask("POST", "/v1/runs/r/take-over", "", b""));
    let mut taken = 0;
    for answer in futures::future::join_all(asked).await {
        let answer = answer?;
        match answer.status {
            202 => taken += 1,
            _ => drop(answer.problem(409, "being_taken")?),
        }
    }
    ensure!(taken >= 1, "nobody has the run");
    for n in [1, 2] {
        let run = second.get("/v1/runs/r?wait=60s&until=call").await?.json()?;
        answer(&second, &run["calls"], json!(n)).await?;
    }
    let run = second.get("/v1/runs/r?wait=60s").await?.json()?;
    ensure!(run["outcome"]["stdout"] == "one é\n1\n2\n", "{run}");
    second.metric("thermae_gateway_runs{state=\"ended\"} 1").await?;
    second.leave().await?;
    first.end().await
}

async fn a_run_that_the_fleet_does_not_know_is_unknown() -> Result<()> {
    let serving = Serving::new().await?;
    serving.get("/v1/runs/nobody/info").await?.problem(404, "unknown_run")?;
    serving.ask("POST", "/v1/runs/nobody/take-over", "", b"").await?.problem(404, "unknown_run")?;
    serving.get("/v1/runs/nobody").await?.problem(404, "unknown_run")?;
    serving.get("/v1/runs/nobody/info?stdout_from=-1").await?.problem(400, "bad_parameter")?;
    serving.metric("thermae_gateway_runs{state=\"underway\"} 0").await?;
    serving.end().await
}

async fn a_run_that_waits_in_its_queue_is_queued() -> Result<()> {
    let serving = Serving::slots(1).await?;
    let takes = json!({ "id": "takes", "code": "open('begun', 'w')\nimport time; time.sleep(600)" });
    ensure!(serving.post("/v1/runs", &takes).await?.status == 202);
    while serving.get("/v1/runs/takes/info").await?.json()?["state"] != "running" {}
    // More than are handed out at once.
    for n in 0..20 {
        ensure!(serving.post("/v1/runs", &json!({ "id": format!("r{n}"), "code": "1" })).await?.status == 202);
    }
    for n in 0..20 {
        let told = serving.get(&format!("/v1/runs/r{n}/info")).await?;
        ensure!(told.status == 200 && told.json()?["state"] == "queued", "r{n}: {told:?}");
        ensure!(serving.get(&format!("/v1/runs/r{n}")).await?.json()?["state"] == "underway");
    }
    serving.end().await
}
