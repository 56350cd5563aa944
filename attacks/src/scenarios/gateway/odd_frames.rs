//! Frames that break the rules of WebSockets, or those of the SDK's protocol.

use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::keyed::ALL;
use crate::fleet::socket::{BINARY, LAST, MORE, PING, announced, frame, message};

pub(super) const SHEET: &str = r#"
tries = "sends an SDK's connection frames without a mask, with reserved bits and kinds, pings that are long or in parts, parts of no message, messages inside of others, lengths up to 2^63 and beyond any frame, lengths that don't fit together, deep and broken headers, ids twice, text, and HTTP"
wins = "a gateway that ends, that waits for ever, or that takes something for a frame that it is not"
guard = "a frame that breaks a rule ends its connection; lengths are compared with their bounds before anything is kept"
control = {}
slow = true
held = { opens = [], memory = { max = 64 }, served = 1 }
open = { opens = ["in order"] }
"#;

/// Longer than the gateway takes to end a connection, and shorter than it bears with a silent one.
const ENDS: Duration = Duration::from_secs(40);

fn first(header: &str) -> Vec<u8> {
    frame(LAST | BINARY, &message(header, b""))
}

/// What is sent on a connection of its own, by name.
fn floods() -> Vec<(&'static str, Vec<u8>)> {
    let hello = first(r#"{"type":"hello","versions":[1]}"#);
    let after = |bytes: &[u8]| [&hello, bytes].concat();
    let open = first(r#"{"type":"open","id":1}"#);
    let run = frame(
        LAST | BINARY,
        &message(r#"{"type":"run","id":2,"window":9}"#, br#"{"id":"odd","code":"await x()","tools":[{"name":"x"}]}"#),
    );
    vec![
        ("no mask", [&[LAST | BINARY, 4][..], b"abcd"].concat()),
        ("reserved bit", frame(LAST | 0x40 | BINARY, b"abcd")),
        ("reserved kind", frame(LAST | 0x3, b"abcd")),
        ("reserved control", frame(LAST | 0xb, b"")),
        ("long ping", frame(LAST | PING, &[0; 126])),
        ("ping in parts", frame(PING, b"a")),
        ("a part of nothing", frame(LAST | MORE, b"a")),
        ("a message in a message", [frame(BINARY, b"a"), frame(LAST | BINARY, b"a")].concat()),
        ("an endless length", announced(LAST | BINARY, u64::MAX)),
        ("a length beyond signs", announced(LAST | BINARY, 1 << 63)),
        ("64 MiB", announced(LAST | BINARY, 64 << 20)),
        ("text", frame(LAST | 0x1, b"{}")),
        ("text that is none", frame(LAST | 0x1, &[0xff; 4])),
        ("a close with half a code", frame(LAST | 0x8, &[3])),
        ("a close with a reserved code", frame(LAST | 0x8, &1005_u16.to_be_bytes())),
        ("nothing", frame(LAST | BINARY, b"")),
        ("half a length", frame(LAST | BINARY, &[1, 0, 0])),
        ("a header beyond the message", frame(LAST | BINARY, &[0xff; 12])),
        ("a large header", frame(LAST | BINARY, &message(&" ".repeat((64 << 10) + 1), b""))),
        ("no JSON", after(&first("\0"))),
        ("no object", after(&first("[]"))),
        ("deep JSON", after(&first(&"[".repeat(60_000)))),
        ("deep JSON in a field", after(&first(&format!(r#"{{"type":"open","id":1,"x":{}"#, "[".repeat(60_000))))),
        ("no type", after(&first(r#"{"id":1}"#))),
        ("no id", after(&first(r#"{"type":"sessions"}"#))),
        ("an id below zero", after(&first(r#"{"type":"sessions","id":-1}"#))),
        ("an id with a fraction", after(&first(r#"{"type":"sessions","id":1.5}"#))),
        ("open before hello", open.clone()),
        ("hello twice", after(&hello)),
        ("another version", first(r#"{"type":"hello","versions":[4294967295]}"#)),
        ("an id twice", after(&[open, run.clone(), run].concat())),
        ("HTTP", b"GET /healthz HTTP/1.1\r\nHost: gateway\r\n\r\n".to_vec()),
        ("bytes", vec![0xff; 4096]),
    ]
}

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.keyed().await?;
    let (holder, other) = (gateway.holder("acme", ALL)?, gateway.holder("globex", ALL)?);
    let mut evidence = Evidence::default();
    if site.lifted {
        holder.sdk().await?;
        evidence.note("opens", vec!["in order"]);
        return Ok(evidence);
    }
    other.honest().await?;
    let before = gateway.process().begin_memory()?;
    let mut opens = Vec::new();
    for (what, bytes) in floods() {
        let mut socket = holder.socket().await?;
        // The gateway may close the connection before it has read everything.
        let _ = socket.stream.write_all(&bytes).await;
        let mut told = Vec::new();
        if tokio::time::timeout(ENDS, socket.stream.read_to_end(&mut told)).await.is_err() {
            opens.push(what);
        }
    }
    evidence.note("opens", opens);
    evidence.note("memory", gateway.process().largest_memory()?.saturating_sub(before));
    other.honest().await?;
    evidence.note("served", 1);
    Ok(evidence)
}
