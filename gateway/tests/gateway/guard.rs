//! What every request goes through: token, routes, headers, bodies.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use serde_json::json;
use thermae_gateway::Options;

use crate::http::Connection;
use crate::serving::{Serving, TOKEN, head};
use crate::test;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("only_the_token_opens_the_gateway", only_the_token_opens_the_gateway),
        test("every_operation_of_the_document_is_there", every_operation_of_the_document_is_there),
        test("unknown_places_and_methods_are_problems", unknown_places_and_methods_are_problems),
        test("requests_have_an_id", requests_have_an_id),
        test("bodies_are_json_and_not_too_large", bodies_are_json_and_not_too_large),
        test("slow_clients_are_ended", slow_clients_are_ended),
        test("strange_heads_are_refused", strange_heads_are_refused),
        test("health_and_metrics_are_told", health_and_metrics_are_told),
    ]
}

async fn only_the_token_opens_the_gateway() -> Result<()> {
    let serving = Serving::new().await?;
    let with = async |headers: &str| serving.raw("GET", "/v1/sessions", headers, b"").await;
    let none = with("").await?;
    none.problem(401, "unauthorized")?;
    ensure!(none.header("www-authenticate") == Some("Bearer"), "{none:?}");
    with("Authorization: Basic YTpi\r\n").await?.problem(401, "unauthorized")?;
    with(&format!("Authorization: {TOKEN}\r\n")).await?.problem(401, "unauthorized")?;
    for wrong in ["", "x", &TOKEN[1..], &TOKEN.to_uppercase(), &format!("{TOKEN}x"), &format!("{TOKEN},{TOKEN}")] {
        with(&format!("Authorization: Bearer {wrong}\r\n")).await?.problem(401, "bad_token").or_else(|error| {
            // A header ends with its last letter: without a token, only the scheme is there.
            if wrong.is_empty() { Ok(json!(null)) } else { Err(error) }
        })?;
    }
    let right = format!("Authorization: bearer  {TOKEN}\r\n");
    ensure!(with(&right).await?.status == 200, "the scheme's case does not matter");
    let wrong = "Authorization: Bearer wrong-wrong-wrong-wrong\r\n";
    for two in [format!("{right}{wrong}"), format!("{wrong}{right}"), format!("{right}{right}")] {
        with(&two).await?.problem(400, "bad_header")?;
    }
    // Nothing of a request is looked at before its token.
    let large = head("POST", "/v1/runs", "", usize::MAX >> 1);
    let mut connection = Connection::open(serving.addr).await?;
    connection.send(large).await?;
    connection.answer(true).await?.problem(401, "unauthorized")?;
    for guarded in ["/metrics", "/v1/runs/x", "/v1/sessions/s/files/x"] {
        serving.raw("GET", guarded, "", b"").await?.problem(401, "unauthorized")?;
    }
    for open in ["/healthz", "/v1/openapi.json"] {
        ensure!(serving.raw("GET", open, "", b"").await?.status == 200);
    }
    serving.end().await
}

async fn every_operation_of_the_document_is_there() -> Result<()> {
    let serving = Serving::new().await?;
    let document = serving.get("/v1/openapi.json").await?.json()?;
    ensure!(&document == thermae_gateway::openapi::document());
    let mut operations = 0;
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        let path = path.replace(['{', '}'], "");
        for method in methods.as_object().into_iter().flatten().map(|(method, _)| method.to_uppercase()) {
            operations += 1;
            let answer = serving.raw(&method, &path, "", b"").await?;
            let guarded = !["/healthz", "/readyz", "/v1/openapi.json"].contains(&path.as_str());
            ensure!((answer.status == 401) == guarded, "{method} {path}: {answer:?}");
        }
    }
    ensure!(operations >= 17, "{operations}");
    serving.end().await
}

async fn unknown_places_and_methods_are_problems() -> Result<()> {
    let serving = Serving::new().await?;
    for nowhere in
        ["/", "/v1", "/v1/", "/v1/runs/", "/v2/runs", "/v1/runs/a/b/c", "/v1/sessions/s", "/v1//runs", "/healthz/"]
    {
        let answer = serving.get(nowhere).await?;
        let known = nowhere == "/v1/sessions/s";
        answer.problem(if known { 405 } else { 404 }, if known { "method_not_allowed" } else { "unknown_route" })?;
    }
    for (method, path, allow) in [
        ("PUT", "/v1/runs", "POST,GET,HEAD"),
        ("OPTIONS", "/v1/runs", "POST,GET,HEAD"),
        ("TRACE", "/v1/sessions", "GET,HEAD"),
        ("POST", "/v1/runs/x", "GET,HEAD,DELETE"),
        ("BREW", "/healthz", "GET,HEAD"),
    ] {
        let answer = serving.ask(method, path, "Origin: http://elsewhere\r\n", b"").await?;
        answer.problem(405, "method_not_allowed")?;
        ensure!(answer.header("allow") == Some(allow), "{answer:?}");
        ensure!(answer.headers.iter().all(|(name, _)| !name.starts_with("access-control")), "{answer:?}");
    }
    for bad in [
        "/v1/runs/x?colour=1",
        "/v1/runs/x?wait=soon",
        "/v1/runs/x?wait=1h",
        "/v1/runs/x?wait=1s&wait=2s",
        "/v1/runs/x?until=never",
        "/v1/runs/a%20b",
        "/v1/runs/%ff",
        "/v1/sessions?all=1",
    ] {
        serving.get(bad).await?.problem(400, "bad_parameter")?;
    }
    serving.end().await
}

async fn requests_have_an_id() -> Result<()> {
    let serving = Serving::new().await?;
    let mine = serving.ask("GET", "/v1/runs/x", "X-Request-Id: mine/1\r\n", b"").await?;
    ensure!(mine.problem(404, "unknown_run")?["request_id"] == "mine/1", "{mine:?}");
    let (one, two) = (serving.get("/v1/sessions").await?, serving.get("/v1/sessions").await?);
    ensure!(one.header("x-request-id").is_some() && one.header("x-request-id") != two.header("x-request-id"));
    let long = format!("X-Request-Id: {}\r\n", "x".repeat(129));
    for bad in ["X-Request-Id: a b\r\n", "X-Request-Id: \r\n", &long, "X-Request-Id: a\r\nX-Request-Id: b\r\n"] {
        serving.ask("GET", "/v1/sessions", bad, b"").await?.problem(400, "bad_header")?;
    }
    serving.end().await
}

async fn bodies_are_json_and_not_too_large() -> Result<()> {
    let serving = Serving::with(Options { body_bytes: 1000, ..Options::default() }).await?;
    let job = br#"{"code": "1"}"#;
    for kind in ["", "Content-Type: text/plain\r\n", "Content-Type: application/x-www-form-urlencoded\r\n"] {
        serving.ask("POST", "/v1/runs", kind, job).await?.problem(415, "unsupported_media_type")?;
    }
    let twice = "Content-Type: application/json\r\nContent-Type: text/plain\r\n";
    serving.ask("POST", "/v1/runs", twice, job).await?.problem(400, "bad_header")?;
    let kind = "Content-Type: Application/JSON; charset=utf-8\r\n";
    ensure!(serving.ask("POST", "/v1/runs", kind, job).await?.status == 202);

    let large = format!(r#"{{"code": "{}"}}"#, "1".repeat(1000));
    serving.ask("POST", "/v1/runs", kind, large.as_bytes()).await?.problem(413, "body_too_large")?;
    // A body that does not say its length is stopped at the same place.
    let chunked = format!(
        "POST /v1/runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n{kind}Transfer-Encoding: chunked\r\n\r\n"
    );
    let mut connection = Connection::open(serving.addr).await?;
    connection.send(format!("{chunked}7d0\r\n{}\r\n", "1".repeat(2000))).await?;
    let answer = connection.answer(true).await?;
    answer.problem(413, "body_too_large")?;
    ensure!(answer.header("connection") == Some("close"), "{answer:?}");
    connection.closed().await?;
    serving.end().await
}

async fn slow_clients_are_ended() -> Result<()> {
    let (short, long) = (Duration::from_millis(300), Duration::from_secs(600));
    let slow_body = Options { header_timeout: long, body_grace: short, ..Options::default() };
    let serving = Serving::with(slow_body).await?;
    let kind = format!("Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n");
    let begun = Instant::now();
    let mut connection = Connection::open(serving.addr).await?;
    connection.send(head("POST", "/v1/runs", &kind, 100)).await?;
    connection.send("{").await?;
    let answer = connection.answer(true).await?;
    answer.problem(408, "slow_body")?;
    ensure!(begun.elapsed() >= short);
    connection.closed().await?;
    serving.end().await?;

    let slow_header = Options { header_timeout: short, body_grace: long, ..Options::default() };
    let serving = Serving::with(slow_header).await?;
    // Headers that never end, and a connection without requests.
    for some in ["", "GET /healthz HTTP/1.1\r\nHost: x\r\n", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"] {
        let mut connection = Connection::open(serving.addr).await?;
        connection.send(some).await?;
        connection.closed().await?;
    }
    serving.end().await
}

async fn strange_heads_are_refused() -> Result<()> {
    let serving = Serving::new().await?;
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    let giant = format!("{token}X-Giant: {}\r\n", "x".repeat(100_000));
    let many = format!("{token}{}", "X-Many: 1\r\n".repeat(200));
    for (headers, status) in [
        (giant, 431),
        (many, 431),
        (format!("{token}Content-Length: 5\r\n"), 400),
        (format!("{token}Bad Name: 1\r\n"), 400),
        (format!("{token} folded: 1\r\n"), 400),
    ] {
        let mut connection = Connection::open(serving.addr).await?;
        // The gateway may close while this is sent.
        let _ = connection.send(head("GET", "/v1/sessions", &headers, 0)).await;
        let answer = connection.head().await?;
        ensure!(answer.status == status, "{status}: {answer:?}");
    }
    // Two lengths in one request could hide a second request.
    let both = format!(
        "POST /v1/runs HTTP/1.1\r\nHost: x\r\n{token}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    );
    let mut connection = Connection::open(serving.addr).await?;
    connection.send(both).await?;
    ensure!(connection.head().await?.status >= 400);
    for line in
        ["GET  /healthz HTTP/1.1", "GET /healthz HTTP/9.9", "GET /\0 HTTP/1.1", "\u{0}\u{1}\u{2}", "PRI * HTTP/2.0"]
    {
        let mut connection = Connection::open(serving.addr).await?;
        connection.send(format!("{line}\r\nHost: x\r\n\r\n")).await?;
        match connection.head().await {
            Ok(answer) => ensure!(answer.status >= 400, "{line}: {answer:?}"),
            Err(_) => connection.closed().await?,
        }
    }
    ensure!(serving.raw("GET", "/healthz", "", b"").await?.status == 200, "the gateway still serves");
    serving.end().await
}

async fn health_and_metrics_are_told() -> Result<()> {
    let serving = Serving::new().await?;
    while serving.raw("GET", "/readyz", "", b"").await?.status != 200 {}
    serving.run(json!({ "code": "1" })).await?;
    serving.metric("thermae_gateway_runs{state=\"ended\"} 1").await?;
    let text = String::from_utf8(serving.get("/metrics").await?.body)?;
    for line in [
        "thermae_gateway_requests_total{operation=\"submitRun\",status=\"200\"} 1",
        "thermae_gateway_request_seconds_count{operation=\"submitRun\"} 1",
        "thermae_gateway_refused_total{reason=\"token\"} 0",
    ] {
        ensure!(text.lines().any(|known| known == line), "{line}: {text}");
    }
    ensure!(text.contains("thermae_worker_jobs_total"), "those of the embedded fleet are there, too");
    serving.end().await
}
