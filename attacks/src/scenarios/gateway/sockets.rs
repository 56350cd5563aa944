//! Connections that say nothing.

use std::time::Duration;

use anyhow::Result;
use tokio::io::AsyncWriteExt;

use crate::evidence::Evidence;
use crate::fleet::{Site, within};

pub(super) const SHEET: &str = r#"
tries = "opens seven hundred connections, and says nothing on them, or only half a line"
wins = "all of the gateway's connections, so that nobody else is served"
guard = "thousands of connections, each of which must send its headers within twenty seconds; one that says nothing holds no request"
control = {}
held = { opened = 700, victims = "served", slowest = { max = 5 } }
open = { victims = "nobody" }
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
        if n % 2 == 0 {
            stream.write_all(b"GET /v1/ru").await?;
        }
        idle.push(stream);
    }
    let mut evidence = Evidence::default();
    evidence.note("opened", idle.len());
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
