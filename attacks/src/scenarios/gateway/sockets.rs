//! Connections that say nothing.

use std::time::Duration;

use anyhow::Result;
use tokio::io::AsyncWriteExt;

use crate::evidence::Evidence;
use crate::fleet::{Site, soon, within};

pub(super) const SHEET: &str = r#"
tries = "opens seven hundred connections: some say nothing, or only half a line, and the others begin requests whose bodies never come"
wins = "all of the gateway's connections, so that nobody else is served, or that nobody learns whether the gateway is healthy"
guard = "connections without a request give way to new ones, one address has a part of all connections, bodies must come, and health has room of its own"
control = {}
held = { opened = 700, victims = "served", health = "told" }
open = { victims = "nobody", health = "told" }
"#;

/// As many as one process may open beside what it has open anyway.
const CONNECTIONS: usize = 700;

/// How long the control waits for a connection that a full queue of the kernel never takes.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.keyed().await?.holder("acme", "run,read")?;
    let mut idle = Vec::new();
    for n in 0..CONNECTIONS {
        // With fewer connections than that, even the kernel's queue is full.
        let connected = if site.lifted {
            match within(PATIENCE, "a connection", gateway.connect()).await {
                Ok(connected) => connected,
                Err(_) => break,
            }
        } else {
            soon("a connection", gateway.connect()).await?
        };
        let mut stream = connected?;
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
    evidence.note("victims", if gateway.honest().await.is_ok() { "served" } else { "nobody" });
    Ok(evidence)
}
