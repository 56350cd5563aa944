//! SDKs at a gateway: who may connect, what they can't reach, and how their connections end.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::{SinkExt, StreamExt};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use thermae_gateway::Options;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_util::sync::CancellationToken;

use crate::contract::sdk::{Sdk, WIDE};
use crate::door::connect;
use crate::http::Connection;
use crate::serving::{Serving, TOKEN, head};
use crate::test;

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("only_sdks_with_the_token_connect", only_sdks_with_the_token_connect),
        test("nothing_of_the_gateways_machine_can_be_opened", nothing_of_the_gateways_machine_can_be_opened),
        test("sdks_and_requests_share_sessions", sdks_and_requests_share_sessions),
        test("what_is_no_frame_is_told", what_is_no_frame_is_told),
        test("an_sdk_without_a_sign_of_life_is_ended", an_sdk_without_a_sign_of_life_is_ended),
        test("what_has_come_of_a_message_counts", what_has_come_of_a_message_counts),
        test("pings_have_a_bound", pings_have_a_bound),
        test("too_many_sdks_are_refused", too_many_sdks_are_refused),
        test("one_tenant_has_a_part_of_the_connections", one_tenant_has_a_part_of_the_connections),
        test("sdks_are_told_that_the_gateway_stops", sdks_are_told_that_the_gateway_stops),
    ]
}

/// A connection that asked for a WebSocket, and its answer's status and code.
async fn asked(serving: &Serving, method: &str, path: &str, headers: &str) -> Result<(Connection, u16, Value)> {
    let mut connection = Connection::open(serving.addr).await?;
    connection.send(head(method, path, headers, 0).replace("Content-Length: 0\r\n", "")).await?;
    let mut answer = connection.head().await?;
    if let Some(length) = answer.header("content-length").map(str::parse).transpose()? {
        answer.body = connection.read(length).await?;
        return Ok((connection, answer.status, answer.json()?["code"].clone()));
    }
    Ok((connection, answer.status, Value::Null))
}

async fn only_sdks_with_the_token_connect() -> Result<()> {
    let serving = Serving::new().await?;
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    let at = "/v1/connect";
    for (method, path, headers, status, code) in [
        ("GET", at, UPGRADE.to_owned(), 401, "unauthorized"),
        ("GET", at, format!("{UPGRADE}Authorization: Bearer {TOKEN}x\r\n"), 401, "bad_token"),
        ("GET", "/v1/connect?token=1", UPGRADE.to_owned(), 401, "unauthorized"),
        ("GET", "/v1/connect?token=1", format!("{UPGRADE}{bearer}"), 400, "bad_parameter"),
        ("GET", at, format!("{UPGRADE}{bearer}Origin: https://page.example\r\n"), 403, "origin_refused"),
        ("GET", at, format!("{UPGRADE}{bearer}Origin: null\r\n"), 403, "origin_refused"),
        ("GET", at, bearer.clone(), 426, "upgrade_required"),
        ("GET", at, format!("{bearer}{}", UPGRADE.replace("13", "12")), 426, "upgrade_required"),
        ("POST", at, format!("{UPGRADE}{bearer}"), 405, "method_not_allowed"),
    ] {
        let (_, found, said) = asked(&serving, method, path, &headers).await?;
        ensure!(found == status && said == code, "{method} {path} {headers}: {found} {said}");
    }
    let (mut connection, status, _) = asked(&serving, "GET", at, &format!("{UPGRADE}{bearer}")).await?;
    ensure!(status == 101);
    serving.metric("thermae_gateway_sdks 1").await?;
    // The connection of the SDK counts, and that of the question.
    serving.metric("thermae_gateway_connections 2").await?;
    serving.metric("thermae_gateway_refused_total{reason=\"origin\"} 2").await?;
    serving.stop.cancel();
    connection.closed().await?;
    serving.end().await
}

async fn nothing_of_the_gateways_machine_can_be_opened() -> Result<()> {
    let serving = Serving::new().await?;
    for field in [
        json!({ "embedded": {} }),
        json!({ "embedded": { "store": "/tmp", "python": "/bin/ls", "datasets": { "etc": "/etc" } } }),
        json!({ "url": "amqp://acme:acme@127.0.0.1:5672" }),
        json!({ "tenant": "other" }),
        json!({ "password": "x" }),
        json!({ "connect_timeout": "1s" }),
        json!({ "path": "/etc" }),
    ] {
        let mut sdk = Sdk::over(connect(serving.addr).await?, CancellationToken::new());
        sdk.hello().await?;
        let mut open = json!({ "type": "open", "id": 1 });
        let name = field.as_object().and_then(|field| field.keys().next()).context("no field")?.clone();
        open[&name] = field[&name].clone();
        sdk.send(open, "").await?;
        sdk.run(2, WIDE, json!({ "code": "" })).await?;
        ensure!(sdk.next().await?.is("hello"));
        for _ in 0..2 {
            let told = sdk.next().await?;
            ensure!(told.code() == "bad_option" && told.header.to_string().contains(&name), "{told:?}");
        }
    }
    let mut sdk = Sdk::of(&serving).await?;
    let mut id = 0;
    for key in ["", "/etc/passwd", "../../etc/passwd", "a/../../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", ".", "a//b"]
    {
        id += 1;
        sdk.send(json!({ "type": "artifact", "id": id, "ref": key, "window": 1000 }), "").await?;
        let all = sdk.all_of(id).await?;
        let code = all[0].code();
        ensure!(all.len() == 1 && ["unknown_ref", "store_unavailable"].contains(&code), "{key:?}: {all:?}");
    }
    sdk.run(100, WIDE, json!({ "code": "", "files": [{ "path": "x", "ref": "../../etc/passwd" }] })).await?;
    let outcome = sdk.outcome(100).await?;
    ensure!(outcome.status == thermae_schemas::Status::Rejected, "{outcome:?}");
    drop(sdk);
    serving.end().await
}

async fn sdks_and_requests_share_sessions() -> Result<()> {
    let serving = Serving::new().await?;
    let mut sdk = Sdk::of(&serving).await?;
    sdk.run(1, WIDE, json!({ "code": "x = 20", "session": { "id": "s" } })).await?;
    sdk.outcome(1).await?;
    let run = serving.run(json!({ "code": "print(x + 22)", "session": { "id": "s" } })).await?;
    ensure!(run["outcome"]["stdout"] == "42\n", "{run}");
    // What an SDK runs is the fleet's, not the gateway's.
    let list = serving.get("/v1/runs").await?.json()?;
    ensure!(list["runs"].as_array().is_some_and(|runs| runs.len() == 1), "{list}");
    // But it counts as what the tenant used.
    let used = serving.get("/v1/usage").await?.json()?;
    ensure!(used["total"]["runs"] == json!({ "succeeded": 2 }), "{used}");
    drop(sdk);
    serving.metric("thermae_gateway_sdks 0").await?;
    serving.end().await
}

async fn what_is_no_frame_is_told() -> Result<()> {
    let serving = Serving::new().await?;
    // Text is no frame.
    let mut socket = connect(serving.addr).await?;
    socket.send(Message::text(r#"{"type":"hello","versions":[1]}"#)).await?;
    ended(&mut socket, "bad_frame").await?;
    // Neither is a message of no bytes, nor one that announces more than any frame has.
    for message in [vec![], vec![0, 0, 0], vec![0xff; 12]] {
        let mut socket = connect(serving.addr).await?;
        socket.send(Message::binary(message)).await?;
        ended(&mut socket, "bad_frame").await?;
    }
    let bearer = format!("{UPGRADE}Authorization: Bearer {TOKEN}\r\n");
    let giant = [&[0x82, 0xff][..], &(64_u64 << 20).to_be_bytes(), &[1, 2, 3, 4]].concat();
    let unmasked = [&[0x82, 4][..], b"abcd"].concat();
    let reserved = [0xf3, 0x80, 1, 2, 3, 4].to_vec();
    for bytes in [giant, unmasked, reserved, b"GET / HTTP/1.1\r\n\r\n".to_vec()] {
        let (mut connection, status, _) = asked(&serving, "GET", "/v1/connect", &bearer).await?;
        ensure!(status == 101);
        connection.send(&bytes).await?;
        connection.closed().await?;
    }
    let mut sdk = Sdk::of(&serving).await?;
    sdk.run(1, WIDE, json!({ "code": "print(1)" })).await?;
    ensure!(sdk.outcome(1).await?.stdout == "1\n", "the gateway still serves");
    drop(sdk);
    serving.metric("thermae_gateway_sdks 0").await?;
    serving.end().await
}

/// Reads to the end, which must have an error with this code and the closing handshake.
async fn ended<S>(socket: &mut S, code: &str) -> Result<()>
where
    S: StreamExt<Item = Result<Message, tungstenite::Error>> + Unpin,
{
    let mut codes = Vec::new();
    let mut closed = false;
    while let Some(message) = socket.next().await.transpose()? {
        match message {
            Message::Binary(bytes) => {
                let frame = thermae_bridge::frames::Frame::parse(bytes)?;
                let header: Value = serde_json::from_slice(&frame.header)?;
                codes.push(header["code"].as_str().unwrap_or_default().to_owned());
            }
            Message::Close(_) => closed = true,
            _ => {}
        }
    }
    ensure!(closed && codes == [code], "{closed} {codes:?}");
    Ok(())
}

async fn an_sdk_without_a_sign_of_life_is_ended() -> Result<()> {
    let serving = Serving::with(Options { heartbeat: Duration::from_millis(50), ..Options::default() }).await?;
    let bearer = format!("{UPGRADE}Authorization: Bearer {TOKEN}\r\n");
    let (mut silent, status, _) = asked(&serving, "GET", "/v1/connect", &bearer).await?;
    ensure!(status == 101);
    // One that answers pings goes on, although it says nothing else for many heartbeats.
    let mut sdk = Sdk::of(&serving).await?;
    sdk.run(1, WIDE, json!({ "code": "import time\ntime.sleep(1)\nprint(1)" })).await?;
    ensure!(sdk.outcome(1).await?.stdout == "1\n");
    silent.closed().await?;
    serving.metric("thermae_gateway_sdks 1").await?;
    drop(sdk);
    serving.end().await
}

async fn what_has_come_of_a_message_counts() -> Result<()> {
    // One connection may hold a quarter.
    let serving = Serving::with(Options { held_bytes: 16 << 20, ..Options::default() }).await?;
    let bearer = format!("{UPGRADE}Authorization: Bearer {TOKEN}\r\n");
    let announced = [&[0x82, 0xff][..], &(8_u64 << 20).to_be_bytes(), &[0; 4]].concat();
    let (mut half, status, _) = asked(&serving, "GET", "/v1/connect", &bearer).await?;
    ensure!(status == 101);
    half.send(&announced).await?;
    half.send(vec![b' '; 3 << 20]).await?;
    let said = (3 << 20) + announced.len();
    serving.held(said..said + (200 << 10)).await?;
    // Beyond its part, the connection ends, whatever is left of the message.
    let _ = half.send(vec![b' '; 4 << 20]).await;
    half.closed().await?;
    serving.held(0..200 << 10).await?;
    serving.metric("thermae_gateway_refused_total{reason=\"bytes\"} 1").await?;
    // Messages that are whole count no more once they are worked off.
    let mut sdk = Sdk::of(&serving).await?;
    for id in 1..5 {
        let large = format!("text = '{}'\nprint(len(text))", "x".repeat(900_000));
        sdk.run(id, WIDE, json!({ "code": large })).await?;
        ensure!(sdk.outcome(id).await?.stdout == "900000\n");
    }
    drop(sdk);
    serving.held(0..200 << 10).await?;
    serving.end().await
}

async fn pings_have_a_bound() -> Result<()> {
    let serving = Serving::new().await?;
    let mut socket = connect(serving.addr).await?;
    for _ in 0..=100 {
        socket.send(Message::Ping(Vec::new().into())).await?;
    }
    ended(&mut socket, "bad_frame").await?;
    serving.end().await
}

async fn one_tenant_has_a_part_of_the_connections() -> Result<()> {
    let serving = Serving::with(Options { sdks: 2, tenant_share: 50, ..Options::default() }).await?;
    let first = Sdk::of(&serving).await?;
    let bearer = format!("{UPGRADE}Authorization: Bearer {TOKEN}\r\n");
    let (_, status, code) = asked(&serving, "GET", "/v1/connect", &bearer).await?;
    ensure!((status, code.as_str()) == (429, Some("too_many_connections")), "{status} {code}");
    drop(first);
    serving.metric("thermae_gateway_sdks 0").await?;
    drop(Sdk::of(&serving).await?);
    serving.end().await
}

async fn too_many_sdks_are_refused() -> Result<()> {
    let serving = Serving::with(Options { sdks: 1, ..Options::default() }).await?;
    let first = Sdk::of(&serving).await?;
    let refused = connect(serving.addr).await;
    let Err(tungstenite::Error::Http(answer)) = refused else { anyhow::bail!("{refused:?}") };
    ensure!(answer.status() == 429 && answer.headers()["retry-after"] == "1", "{answer:?}");
    serving.metric("thermae_gateway_refused_total{reason=\"sdks\"} 1").await?;
    drop(first);
    serving.metric("thermae_gateway_sdks 0").await?;
    drop(Sdk::of(&serving).await?);
    serving.end().await
}

async fn sdks_are_told_that_the_gateway_stops() -> Result<()> {
    let serving = Serving::new().await?;
    let (mut busy, mut idle) = (Sdk::of(&serving).await?, Sdk::of(&serving).await?);
    busy.run(1, WIDE, json!({ "code": "await hold()", "tools": [{ "name": "hold" }] })).await?;
    ensure!(busy.next().await?.is("event"), "it runs");
    serving.stop.cancel();
    for sdk in [&mut busy, &mut idle] {
        let last = sdk.next().await?;
        ensure!(last.is("error") && last.id().is_none() && last.code() == "draining", "{last:?}");
        ensure!(last.header["advice"].is_string() && sdk.next_or_end().await?.is_none());
    }
    serving.end().await
}
