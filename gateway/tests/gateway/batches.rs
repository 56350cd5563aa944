//! Batches: submit, count, results, cancel.

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use thermae_gateway::Options;

use crate::http::{Answer, Connection};
use crate::serving::{Serving, TOKEN, head};
use crate::test;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("a_batch_runs_and_its_results_come_as_lines", a_batch_runs_and_its_results_come_as_lines),
        test("a_repeated_batch_is_the_same", a_repeated_batch_is_the_same),
        test("a_job_that_conflicts_does_not_stop_the_others", a_job_that_conflicts_does_not_stop_the_others),
        test("a_batch_is_cancelled", a_batch_is_cancelled),
        test("a_batch_that_is_none_is_refused_as_a_whole", a_batch_that_is_none_is_refused_as_a_whole),
        test("results_end_with_the_gateway", results_end_with_the_gateway),
    ]
}

/// The lines of an answer.
fn lines(answer: &Answer) -> Result<Vec<Value>> {
    ensure!(answer.status == 200 && answer.header("content-type") == Some("application/x-ndjson"), "{answer:?}");
    let text = std::str::from_utf8(&answer.body)?;
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

async fn a_batch_runs_and_its_results_come_as_lines() -> Result<()> {
    let serving = Serving::new().await?;
    let late = json!({ "id": "late", "code": "await hold()", "tools": [{ "name": "hold" }] });
    let jobs = json!([late, { "id": "b", "code": "1 / 0" }, { "code": "print(3)" }]);
    let begun = serving.post("/v1/batches", &json!({ "jobs": jobs })).await?;
    let batch = begun.json()?;
    ensure!(begun.status == 202 && batch["state"] == "underway" && batch["runs"][0] == "late", "{begun:?}");
    let path = format!("/v1/batches/{}", batch["id"].as_str().unwrap_or_default());
    ensure!(begun.header("location") == Some(&path), "{begun:?}");

    // The others have ended before the call of the first is answered.
    let answered = async {
        while serving.get(&path).await?.json()?["underway"] != 1 {}
        let call = loop {
            let run = serving.get("/v1/runs/late?wait=60s&until=call").await?.json()?;
            if let Some(call) = run["calls"][0]["call"].as_str() {
                break call.to_owned();
            }
        };
        let answer = serving.post(&format!("/v1/runs/late/calls/{call}"), &json!({ "ok": 1 })).await?;
        ensure!(answer.status == 204, "{answer:?}");
        anyhow::Ok(())
    };
    let followed = format!("{path}/results");
    let (results, answered) = tokio::join!(serving.get(&followed), answered);
    answered?;
    let results = lines(&results?)?;
    let of = |id: &Value| results.iter().find(|line| line["id"] == *id).cloned().unwrap_or_default();
    ensure!(
        results.len() == 3 && results[2]["id"] == "late",
        "the results are not in the order of the ends: {results:?}"
    );
    ensure!(of(&json!("b"))["error"]["code"] == "code_raised", "{results:?}");
    ensure!(of(&batch["runs"][2])["stdout"] == "3\n", "{results:?}");

    let ended = serving.get(&path).await?.json()?;
    ensure!(ended["state"] == "ended" && ended["ended"] == json!({ "succeeded": 2, "failed": 1 }), "{ended}");
    ensure!(ended["underway"] == 0 && ended["unknown"] == 0, "{ended}");
    ensure!(lines(&serving.get(&format!("{path}/results")).await?)?.len() == 3);
    serving.get("/v1/batches/none").await?.problem(404, "unknown_batch")?;
    serving.end().await
}

async fn a_repeated_batch_is_the_same() -> Result<()> {
    let serving = Serving::new().await?;
    let batch = json!({ "id": "one", "jobs": [{ "code": "print(1)" }, { "id": "b", "code": "print(2)" }] });
    let first = serving.post("/v1/batches?wait=60s", &batch).await?;
    ensure!(first.status == 200 && first.json()?["ended"] == json!({ "succeeded": 2 }), "{first:?}");
    let again = serving.post("/v1/batches", &batch).await?;
    ensure!(again.json()? == first.json()?, "{again:?}");
    let other = json!({ "id": "one", "jobs": [{ "code": "print(1)" }] });
    serving.post("/v1/batches", &other).await?.problem(409, "id_conflict")?;
    let runs = serving.get("/v1/runs").await?.json()?;
    ensure!(runs["runs"].as_array().map(Vec::len) == Some(2), "{runs}");
    serving.end().await
}

async fn a_job_that_conflicts_does_not_stop_the_others() -> Result<()> {
    let serving = Serving::new().await?;
    serving.run(json!({ "id": "taken", "code": "print('before')" })).await?;
    let jobs = json!([{ "id": "taken", "code": "print('other')" }, { "id": "free", "code": "print('free')" }]);
    let batch = serving.post("/v1/batches?wait=60s", &json!({ "id": "b", "jobs": jobs })).await?.json()?;
    ensure!(batch["ended"] == json!({ "succeeded": 1 }) && batch["unknown"] == 1, "{batch}");
    let results = lines(&serving.get("/v1/batches/b/results").await?)?;
    let taken = results.iter().find(|line| line["id"] == "taken").cloned().unwrap_or_default();
    ensure!(taken["error"]["code"] == "id_conflict" && taken.get("stdout").is_none(), "{results:?}");
    serving.end().await
}

async fn a_batch_is_cancelled() -> Result<()> {
    let serving = Serving::new().await?;
    let sleeps = json!({ "code": "import time\nwhile True: time.sleep(1)" });
    let jobs = json!([{ "code": "print(1)" }, sleeps, sleeps, sleeps]);
    serving.post("/v1/batches", &json!({ "id": "b", "jobs": jobs })).await?;
    let cancelled = serving.ask("DELETE", "/v1/batches/b?wait=60s", "", b"").await?;
    let batch = cancelled.json()?;
    ensure!(cancelled.status == 200 && batch["state"] == "ended", "{batch}");
    let ended = |status: &str| batch["ended"][status].as_u64().unwrap_or_default();
    ensure!(ended("cancelled") >= 3 && ended("cancelled") + ended("succeeded") == 4, "{batch}");
    serving.end().await
}

async fn a_batch_that_is_none_is_refused_as_a_whole() -> Result<()> {
    let serving = Serving::with(Options { runs: 3, ..Options::default() }).await?;
    let bad = json!({ "jobs": [{ "code": "print(1)" }, { "code": "print(2)", "limits": { "wall": 1 } }] });
    let refused = serving.post("/v1/batches", &bad).await?;
    ensure!(refused.json()?["detail"].as_str().unwrap_or_default().contains("/jobs/1: /limits"), "{refused:?}");
    refused.problem(422, "unknown_field")?;
    let many = json!({ "jobs": vec![json!({ "code": "" }); 4] });
    serving.post("/v1/batches", &many).await?.problem(429, "too_many_runs")?;
    let runs = serving.get("/v1/runs").await?.json()?;
    ensure!(runs == json!({ "runs": [] }), "{runs}");
    serving.end().await
}

async fn results_end_with_the_gateway() -> Result<()> {
    let serving = Serving::new().await?;
    let jobs = json!([{ "id": "short", "code": "" }, { "code": "import time\nwhile True: time.sleep(1)" }]);
    serving.post("/v1/batches", &json!({ "id": "b", "jobs": jobs })).await?;
    let mut connection = Connection::open(serving.addr).await?;
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    connection.send(head("GET", "/v1/batches/b/results", &token, 0)).await?;
    connection.head().await?;
    let first: Value = serde_json::from_slice(&connection.chunk().await?.context("no line")?)?;
    ensure!(first["id"] == "short", "{first}");
    serving.stop.cancel();
    let last: Value = serde_json::from_slice(&connection.chunk().await?.context("no last line")?)?;
    ensure!(last["error"]["code"] == "draining" && last.get("id").is_none(), "{last}");
    ensure!(connection.chunk().await?.is_none());
    serving.end().await
}
