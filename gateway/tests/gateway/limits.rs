//! What bounds a gateway.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use thermae_gateway::Options;

use crate::http::Connection;
use crate::serving::Serving;
use crate::test;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("too_many_requests_at_once_are_refused", too_many_requests_at_once_are_refused),
        test("too_many_runs_at_once_are_refused", too_many_runs_at_once_are_refused),
        test("bytes_are_bounded", bytes_are_bounded),
        test("ended_runs_are_forgotten", ended_runs_are_forgotten),
        test("idle_connections_give_way", idle_connections_give_way),
        test("health_is_told_if_all_connections_have_requests", health_is_told_if_all_connections_have_requests),
    ]
}

/// More than a connection takes that asks for metrics.
const CONNECTION: usize = 40 << 10;

/// A job that waits for a tool.
fn waits(id: &str) -> Value {
    json!({ "id": id, "code": "await hold()", "tools": [{ "name": "hold" }] })
}

async fn too_many_requests_at_once_are_refused() -> Result<()> {
    let serving = Serving::with(Options { requests: 1, ..Options::default() }).await?;
    serving.post("/v1/runs?wait=60s&until=call", &waits("r")).await?;
    let mut follower = serving.follow("GET", "/v1/runs/r/events", "", b"").await?;
    follower.next().await?.context("no event")?;
    let refused = serving.get("/v1/runs/r").await?;
    refused.problem(429, "too_many_requests")?;
    ensure!(refused.header("retry-after") == Some("1"), "{refused:?}");
    ensure!(serving.raw("GET", "/healthz", "", b"").await?.status == 200, "health is told nevertheless");
    serving.metric("thermae_gateway_refused_total{reason=\"requests\"} 1").await?;
    drop(follower);
    serving.metric("thermae_gateway_followers 0").await?;
    ensure!(serving.get("/v1/runs/r").await?.status == 200);
    serving.end().await
}

async fn too_many_runs_at_once_are_refused() -> Result<()> {
    let serving = Serving::with(Options { runs: 1, ..Options::default() }).await?;
    ensure!(serving.post("/v1/runs", &waits("r")).await?.status == 202);
    ensure!(serving.post("/v1/runs", &waits("r")).await?.status == 202, "the same run again");
    let refused = serving.post("/v1/runs", &waits("s")).await?;
    refused.problem(429, "too_many_runs")?;
    ensure!(refused.header("retry-after") == Some("1"), "{refused:?}");
    serving.ask("DELETE", "/v1/runs/r?wait=60s", "", b"").await?;
    ensure!(serving.post("/v1/runs", &waits("s")).await?.status == 202, "a run that has ended takes no room");
    serving.end().await
}

async fn bytes_are_bounded() -> Result<()> {
    let serving = Serving::with(Options { held_bytes: 1_000_000, ..Options::default() }).await?;
    let large = |id: &str| json!({ "id": id, "code": format!("print('{}')", "x".repeat(120_000)) });
    // Each run holds its outcome, so that the oldest must go.
    for n in 0..6 {
        serving.run(large(&format!("r{n}"))).await?;
    }
    serving.get("/v1/runs/r0").await?.problem(404, "unknown_run")?;
    ensure!(serving.get("/v1/runs/r5").await?.status == 200);
    serving.post("/v1/runs", &json!({ "code": "x".repeat(500_000) })).await?.problem(503, "gateway_full")?;
    serving.end().await
}

async fn ended_runs_are_forgotten() -> Result<()> {
    let serving = Serving::with(Options { keep: Duration::from_millis(200), ..Options::default() }).await?;
    serving.run(json!({ "id": "r", "code": "1" })).await?;
    serving.metric("thermae_gateway_runs{state=\"ended\"} 0").await?;
    serving.get("/v1/runs/r").await?.problem(404, "unknown_run")?;
    serving.held(0..CONNECTION).await?;
    serving.end().await
}

async fn idle_connections_give_way() -> Result<()> {
    let options = Options { connections: 4, peer_share: 100, ..Options::default() };
    let serving = Serving::with(options).await?;
    // The fleet is ready.
    serving.run(json!({ "code": "1" })).await?;
    let mut idle = Vec::new();
    for n in 0..200 {
        let mut connection = Connection::open(serving.addr).await?;
        // Some have begun to send a request.
        connection.send(["", "GET /healthz HTTP/1.1\r\nHost: "][n % 2]).await?;
        idle.push(connection);
    }
    for path in ["/healthz", "/readyz"] {
        ensure!(serving.raw("GET", path, "", b"").await?.status == 200, "{path}");
    }
    ensure!(serving.get("/v1/sessions").await?.status == 200, "callers are served, too");
    for connection in &mut idle[..190] {
        connection.closed().await?;
    }
    serving.end().await
}

async fn health_is_told_if_all_connections_have_requests() -> Result<()> {
    let serving = Serving::with(Options { connections: 4, peer_share: 50, ..Options::default() }).await?;
    serving.post("/v1/runs?wait=60s&until=call", &waits("r")).await?;
    // One address has at most two.
    let mut followers = Vec::new();
    for _ in 0..2 {
        let mut follower = serving.follow("GET", "/v1/runs/r/events", "", b"").await?;
        follower.next().await?.context("no event")?;
        followers.push(follower);
    }
    let refused = serving.get("/v1/runs/r").await?;
    refused.problem(429, "too_many_connections")?;
    ensure!(refused.header("connection") == Some("close"), "{refused:?}");
    let mut idle = Vec::new();
    for _ in 0..100 {
        idle.push(Connection::open(serving.addr).await?);
    }
    for path in ["/healthz", "/readyz"] {
        ensure!(serving.raw("GET", path, "", b"").await?.status == 200, "{path}");
    }
    drop((followers, idle));
    while serving.get("/v1/runs/r").await?.status != 200 {
        tokio::task::yield_now().await;
    }
    serving.end().await
}
