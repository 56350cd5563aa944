//! Bodies that come a byte at a time.

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::evidence::Evidence;
use crate::fleet::Site;

pub(super) const SHEET: &str = r#"
tries = "sends two hundred submits, each of which says that its body is a megabyte long and sends a byte a second; half of them never end their headers"
wins = "all of the gateway's memory and connections, at next to no cost"
guard = "a body must come at 16 KiB a second after ten seconds, and headers within twenty; others are served meanwhile"
uncontrolled = "the bounds have no setting"
slow = true
held = { slowest = { max = 5 }, cut_off = 200 }
"#;

const SLOW: usize = 200;

/// Longer than the gateway bears with a slow body or head.
const CUT_OFF: Duration = Duration::from_secs(28);

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.gateway().await?;
    let mut slow = Vec::new();
    for n in 0..SLOW {
        let mut stream = gateway.connect().await?;
        let end = if n % 2 == 0 { "Content-Length: 1000000\r\n\r\n{" } else { "X-Slow: " };
        let head = format!(
            "POST /v1/runs HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n{end}",
            crate::fleet::gateway::TOKEN
        );
        stream.write_all(head.as_bytes()).await?;
        slow.push(stream);
    }
    let (mut slowest, begun) = (0.0f64, Instant::now());
    let mut cut_off = 0;
    while begun.elapsed() < CUT_OFF && !slow.is_empty() {
        slowest = slowest.max(gateway.honest().await?);
        let mut open = Vec::new();
        for mut stream in slow {
            let mut told = [0; 512];
            let ended = match tokio::time::timeout(Duration::from_millis(1), stream.read(&mut told)).await {
                Ok(_) => true,
                Err(_) => stream.write_all(b" ").await.is_err(),
            };
            if ended { cut_off += 1 } else { open.push(stream) }
        }
        slow = open;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let mut evidence = Evidence::default();
    evidence.note("slowest", slowest);
    evidence.note("cut_off", cut_off);
    Ok(evidence)
}
