//! Runs: submit, look, cancel, artifacts.

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use serde_json::json;
use thermae_testkit::json::LISTS_FOR_OBJECTS;

use crate::serving::Serving;
use crate::test;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("a_job_runs_and_its_outcome_is_kept", a_job_runs_and_its_outcome_is_kept),
        test("a_repeated_submit_is_the_same_run", a_repeated_submit_is_the_same_run),
        test("runs_are_listed_by_pages", runs_are_listed_by_pages),
        test("a_run_is_cancelled", a_run_is_cancelled),
        test("artifacts_are_served_with_ranges", artifacts_are_served_with_ranges),
        test("what_is_no_job_is_refused_with_the_field", what_is_no_job_is_refused_with_the_field),
    ]
}

async fn a_job_runs_and_its_outcome_is_kept() -> Result<()> {
    let serving = Serving::new().await?;
    let run = serving.run(json!({ "code": "print(6 * 7)", "id": "HumanEval/0" })).await?;
    ensure!(run["id"] == "HumanEval/0" && run["outcome"]["stdout"] == "42\n", "{run}");
    let again = serving.get("/v1/runs/HumanEval%2F0").await?;
    ensure!(again.status == 200 && again.json()? == run, "{again:?}");

    let begun = serving.post("/v1/runs", &json!({ "code": "import time\ntime.sleep(0.3)\nprint('late')" })).await?;
    ensure!(begun.status == 202 && begun.json()?["state"] == "underway", "{begun:?}");
    let location = begun.header("location").unwrap_or_default().to_owned();
    ensure!(location == format!("/v1/runs/{}", begun.json()?["id"].as_str().unwrap_or_default()), "{location}");
    let early = serving.get(&format!("{location}?wait=1ms")).await?.json()?;
    ensure!(early["state"] == "underway" && early.get("outcome").is_none(), "{early}");
    let late = serving.get(&format!("{location}?wait=60s")).await?.json()?;
    ensure!(late["outcome"]["stdout"] == "late\n" && late["outcome"]["status"] == "succeeded", "{late}");

    let failed = serving.run(json!({ "code": "1 / 0" })).await?;
    ensure!(failed["outcome"]["error"]["code"] == "code_raised", "a run that fails is no problem: {failed}");
    serving.get("/v1/runs/nobody").await?.problem(404, "unknown_run")?;
    serving.end().await
}

async fn runs_are_listed_by_pages() -> Result<()> {
    let serving = Serving::new().await?;
    ensure!(serving.get("/v1/runs").await?.json()? == json!({ "runs": [] }));
    for n in 0..5 {
        serving.run(json!({ "id": format!("r{n}"), "code": if n == 3 { "1 / 0" } else { "" } })).await?;
    }
    let waits = json!({ "id": "waits", "code": "await look()", "tools": [{ "name": "look" }] });
    serving.post("/v1/runs?wait=60s&until=call", &waits).await?;
    let ids = |page: &serde_json::Value| -> Vec<String> {
        let runs = page["runs"].as_array().into_iter().flatten();
        runs.map(|run| run["id"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let all = serving.get("/v1/runs").await?.json()?;
    ensure!(ids(&all) == ["waits", "r4", "r3", "r2", "r1", "r0"] && all.get("next").is_none(), "{all}");
    let first = &all["runs"][0];
    ensure!(first["state"] == "underway" && first["waiting_calls"] == 1 && first.get("status").is_none(), "{all}");
    ensure!(all["runs"][2] == json!({ "id": "r3", "state": "ended", "waiting_calls": 0, "status": "failed" }), "{all}");

    let page = serving.get("/v1/runs?limit=2&state=ended").await?.json()?;
    ensure!(ids(&page) == ["r4", "r3"], "{page}");
    // What comes later is not on a later page.
    serving.run(json!({ "id": "late", "code": "" })).await?;
    let next = format!("/v1/runs?limit=2&state=ended&cursor={}", page["next"].as_str().unwrap_or_default());
    let page = serving.get(&next).await?.json()?;
    ensure!(ids(&page) == ["r2", "r1"], "{page}");
    let last = format!("/v1/runs?limit=2&state=ended&cursor={}", page["next"].as_str().unwrap_or_default());
    let page = serving.get(&last).await?.json()?;
    ensure!(ids(&page) == ["r0"] && page.get("next").is_none(), "{page}");
    for bad in ["limit=0", "limit=1001", "limit=x", "cursor=x", "cursor=-1", "state=over"] {
        serving.get(&format!("/v1/runs?{bad}")).await?.problem(400, "bad_parameter")?;
    }
    serving.end().await
}

async fn a_repeated_submit_is_the_same_run() -> Result<()> {
    let serving = Serving::new().await?;
    let job = json!({ "id": "one", "code": "import random\nprint(random.random())" });
    let (first, second) = (serving.run(job.clone()).await?, serving.run(job).await?);
    ensure!(first == second, "{first} {second}");
    serving.post("/v1/runs", &json!({ "id": "one", "code": "2" })).await?.problem(409, "id_conflict")?;

    let keyed = "Content-Type: application/json\r\nIdempotency-Key: key-1\r\n";
    let body = json!({ "code": "import random\nprint(random.random())" }).to_string();
    let first = serving.ask("POST", "/v1/runs?wait=60s", keyed, body.as_bytes()).await?;
    let second = serving.ask("POST", "/v1/runs?wait=60s", keyed, body.as_bytes()).await?;
    ensure!(first.status == 200 && first.json()? == second.json()?, "{first:?} {second:?}");
    let other = serving.ask("POST", "/v1/runs", keyed, br#"{"code": "3"}"#).await?;
    other.problem(409, "idempotency_conflict")?;
    // The fleet itself joins runs that chose ids of their own.
    let named = json!({ "code": "import random\nprint(random.random())", "id": "other", "idempotency_key": "key-1" });
    let named = serving.run(named).await?;
    ensure!(named["outcome"]["stdout"] == first.json()?["outcome"]["stdout"], "{named}");
    ensure!(named["outcome"]["duplicate_of"] == first.json()?["id"], "{named}");
    serving.end().await
}

async fn a_run_is_cancelled() -> Result<()> {
    let serving = Serving::new().await?;
    serving.post("/v1/runs", &json!({ "id": "long", "code": "while True: pass" })).await?;
    let cancelled = serving.ask("DELETE", "/v1/runs/long?wait=60s", "", b"").await?;
    ensure!(cancelled.status == 200 && cancelled.json()?["outcome"]["status"] == "cancelled", "{cancelled:?}");
    let again = serving.ask("DELETE", "/v1/runs/long", "", b"").await?;
    ensure!(again.status == 200 && again.json()? == cancelled.json()?, "{again:?}");
    serving.ask("DELETE", "/v1/runs/nobody", "", b"").await?.problem(404, "unknown_run")?;
    serving.end().await
}

async fn artifacts_are_served_with_ranges() -> Result<()> {
    let serving = Serving::new().await?;
    let code = "import os\nos.makedirs('/workspace/artifacts/a b')\n\
                open('/workspace/artifacts/a b/c.csv', 'w').write('0123456789')\n\
                open('/workspace/artifacts/empty', 'w').close()";
    let run = serving.run(json!({ "id": "left", "code": code })).await?;
    ensure!(run["outcome"]["artifacts"].as_array().map(Vec::len) == Some(2), "{run}");
    let path = "/v1/runs/left/artifacts/a%20b/c.csv";
    let whole = serving.get(path).await?;
    ensure!(whole.status == 200 && whole.body == b"0123456789", "{whole:?}");
    ensure!(
        whole.header("content-type") == Some("text/csv") && whole.header("content-disposition") == Some("attachment")
    );
    let tag = whole.header("etag").unwrap_or_default().to_owned();
    for (headers, status, body, range) in [
        ("Range: bytes=2-4\r\n".to_owned(), 206, &b"234"[..], Some("bytes 2-4/10")),
        ("Range: bytes=-2\r\n".to_owned(), 206, b"89", Some("bytes 8-9/10")),
        (format!("Range: bytes=7-\r\nIf-Range: {tag}\r\n"), 206, b"789", Some("bytes 7-9/10")),
        ("Range: bytes=7-\r\nIf-Range: \"other\"\r\n".to_owned(), 200, b"0123456789", None),
    ] {
        let part = serving.ask("GET", path, &headers, b"").await?;
        ensure!(part.status == status && part.body == body && part.header("content-range") == range, "{part:?}");
    }
    let head = serving.ask("HEAD", path, "", b"").await?;
    ensure!(head.status == 200 && head.header("content-length") == Some("10"), "{head:?}");
    serving.ask("GET", path, "Range: bytes=10-\r\n", b"").await?.problem(416, "range_not_satisfiable")?;
    let empty = serving.get("/v1/runs/left/artifacts/empty").await?;
    ensure!(empty.status == 200 && empty.body.is_empty(), "{empty:?}");
    for nothing in ["c.csv", "..%2Fa%20b%2Fc.csv", "%2Fetc%2Fpasswd", "a%20b"] {
        serving.get(&format!("/v1/runs/left/artifacts/{nothing}")).await?.problem(404, "unknown_artifact")?;
    }
    serving.post("/v1/runs", &json!({ "id": "long", "code": "while True: pass" })).await?;
    serving.get("/v1/runs/long/artifacts/a").await?.problem(409, "not_ended")?;
    serving.end().await
}

async fn what_is_no_job_is_refused_with_the_field() -> Result<()> {
    let serving = Serving::new().await?;
    for (body, status, code, says) in [
        ("{", 400, "malformed_json", "EOF"),
        ("", 400, "malformed_json", "EOF"),
        ("[]", 422, "schema_violation", ""),
        ("{}", 422, "schema_violation", "code"),
        (r#"{"code": "", "colour": 1}"#, 422, "unknown_field", "colour"),
        (r#"{"code": "", "limits": {"wall_ms": "1"}}"#, 422, "schema_violation", "/limits/wall_ms"),
        (r#"{"code": "", "id": "a b"}"#, 422, "schema_violation", "/id"),
        (r#"{"code": "", "protocol": 99}"#, 422, "unsupported_protocol", "99"),
    ] {
        let answer = serving.ask("POST", "/v1/runs", "Content-Type: application/json\r\n", body.as_bytes()).await?;
        let problem = answer.problem(status, code)?;
        ensure!(problem["detail"].as_str().is_some_and(|detail| detail.contains(says)), "{body}: {problem}");
    }
    for (path, body) in LISTS_FOR_OBJECTS {
        let answer = serving.ask("POST", "/v1/runs", "Content-Type: application/json\r\n", body.as_bytes()).await?;
        let (code, place) = match path {
            "/capabilities/0" => ("bad_capability", "capabilities[0]: "),
            _ => ("schema_violation", path),
        };
        let problem = answer.problem(422, code)?;
        ensure!(problem["detail"].as_str().is_some_and(|detail| detail.starts_with(place)), "{body}: {problem}");
    }
    // What only the fleet can see is told in the outcome.
    let run = serving.run(json!({ "code": "1", "pool": "nowhere" })).await?;
    ensure!(run["outcome"]["error"]["code"] == "unknown_pool", "{run}");
    serving.end().await
}
