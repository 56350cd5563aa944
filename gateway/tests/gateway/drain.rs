//! How a gateway ends.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use serde_json::json;
use thermae_gateway::Options;
use tokio::net::TcpStream;

use crate::http::Connection;
use crate::serving::{Serving, TOKEN, head};
use crate::test;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("a_gateway_ends_in_order", a_gateway_ends_in_order),
        test("requests_that_take_too_long_are_cut_off", requests_that_take_too_long_are_cut_off),
    ]
}

async fn a_gateway_ends_in_order() -> Result<()> {
    let serving = Serving::new().await?;
    serving.session("s").await?;
    let job = json!({ "id": "r", "code": "await hold()", "tools": [{ "name": "hold" }] });
    serving.post("/v1/runs?wait=60s&until=call", &job).await?;
    let mut follower = serving.follow("GET", "/v1/runs/r/events", "", b"").await?;
    let call = follower.next().await?.context("no event")?;
    ensure!(call.event == "tool_call", "{call:?}");
    let auth = format!("Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n");
    // A wait, a command that takes a while, and a connection without a request.
    let mut waiter = Connection::open(serving.addr).await?;
    waiter.send(head("GET", "/v1/runs/r?wait=60s", &auth, 0)).await?;
    let mut working = Connection::open(serving.addr).await?;
    let body = json!({ "shell": "echo begun > begun; sleep 0.5; echo done" }).to_string();
    working.send(head("POST", "/v1/sessions/s/exec", &auth, body.len())).await?;
    working.send(&body).await?;
    while serving.get("/v1/sessions/s/files/begun").await?.status != 200 {}
    let mut idle = Connection::open(serving.addr).await?;
    serving.metric("thermae_gateway_connections 5").await?;

    let (addr, stop) = (serving.addr, serving.stop.clone());
    stop.cancel();
    let last = follower.next().await?.context("no last event")?;
    ensure!(last.event == "closing" && last.id.is_none() && last.data["code"] == "draining", "{last:?}");
    ensure!(follower.next().await?.is_none());
    let waited = waiter.answer(true).await?;
    ensure!(waited.status == 200 && waited.json()?["state"] == "underway", "{waited:?}");
    let worked = working.answer(true).await?;
    ensure!(worked.json()?["stdout"] == "done\n", "{worked:?}");
    idle.closed().await?;
    serving.end().await?;
    ensure!(TcpStream::connect(addr).await.is_err(), "it still listens");
    Ok(())
}

async fn requests_that_take_too_long_are_cut_off() -> Result<()> {
    let serving = Serving::with(Options { drain: Duration::from_millis(200), ..Options::default() }).await?;
    serving.session("s").await?;
    let auth = format!("Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n");
    let body = json!({ "shell": "echo > begun; sleep 600" }).to_string();
    let mut working = Connection::open(serving.addr).await?;
    working.send(head("POST", "/v1/sessions/s/exec", &auth, body.len())).await?;
    working.send(&body).await?;
    while serving.get("/v1/sessions/s/files/begun").await?.status != 200 {}
    serving.end().await?;
    ensure!(working.answer(true).await.is_err(), "it was cut off");
    Ok(())
}
