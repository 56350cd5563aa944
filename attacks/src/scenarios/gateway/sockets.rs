//! Connections that say nothing.

use std::time::Duration;

use anyhow::Result;
use tokio::io::AsyncWriteExt;

use crate::evidence::Evidence;
use crate::fleet::{Site, within};

pub(super) const SHEET: &str = r#"
tries = "opens seven hundred connections: some say nothing, or only half a line, and the others begin requests whose bodies never come"
wins = "all of the gateway's connections, so that nobody else is served, or that nobody learns whether the gateway is healthy"
guard = "connections without a request give way to new ones, one address has a part of all connections, bodies must come, and health has room of its own"
control = {}
held = { opened = 700, victims = "served", health = "told", slowest = { max = 5 } }
open = { victims = "nobody", health = "told" }
"#;

/// As many as one process may open beside what it has open anyway.
const CONNECTIONS: usize = 700;

/// Longer than a gateway takes for a connection.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.keyed().await?.holder("acme", "run,read")?;
    let mut idle = Vec::new();
    for n in 0..CONNECTIONS {
        // With fewer connections than that, even the kernel's queue is full.
        let Ok(stream) = within(PATIENCE, "a connection", gateway.connect()).await else { break };
        let mut stream = stream?;
        let said = match n % 8 {
            0 => String::new(),
            1 => "GET /v1/ru".to_owned(),
            _ => format!("POST /v1/runs HTTP/1.1\r\nHost: gateway\r\n{}Content-Length: 9\r\n\r\n", gateway.headers()),
        };
        stream.write_all(said.as_bytes()).await?;
        idle.push(stream);
    }
    let mut evidence = Evidence::default();
    evidence.note("opened", idle.len());
    let told = gateway.raw(b"GET /healthz HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n").await?;
    evidence.note("health", if told.status == 200 { "told".to_owned() } else { told.code() });
    let Ok(mut slowest) = gateway.honest().await else {
        evidence.note("victims", "nobody");
        return Ok(evidence);
    };
    evidence.note("victims", "served");
    for _ in 0..5 {
        slowest = slowest.max(gateway.honest().await?);
    }
    evidence.note("slowest", slowest);
    Ok(evidence)
}
