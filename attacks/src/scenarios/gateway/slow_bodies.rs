//! Bodies that come a byte at a time.

use std::time::Duration;

use anyhow::Result;
use tokio::io::AsyncWriteExt;

use crate::evidence::Evidence;
use crate::fleet::{Site, slow};

pub(super) const SHEET: &str = r#"
tries = "sends two hundred submits, each of which says that its body is a megabyte long and sends a byte a second; half of them never end their headers"
wins = "all of the gateway's memory and connections, at next to no cost"
guard = "a body must come at 16 KiB a second after ten seconds, and headers within twenty; others are served meanwhile"
slow = true
control = {}
held = { served = { min = 1 }, cut_off = 200 }
open = { cut_off = 0 }
"#;

const SLOW: usize = 200;

/// Longer than the gateway with guards bears with a slow body or head.
const CUT_OFF: Duration = Duration::from_secs(28);

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.keyed().await?.holder("acme", "run,read")?;
    let mut streams = Vec::new();
    for n in 0..SLOW {
        let mut stream = gateway.connect().await?;
        let end = if n % 2 == 0 { "Content-Length: 1000000\r\n\r\n{" } else { "X-Slow: " };
        let head = format!("POST /v1/runs HTTP/1.1\r\nHost: gateway\r\n{}{end}", gateway.headers());
        stream.write_all(head.as_bytes()).await?;
        streams.push(stream);
    }
    slow::drip(streams, if site.lifted { CUT_OFF } else { slow::LONG }, &gateway).await
}
