//! Connections on which one byte comes at a time.

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::gateway::Gateway;
use crate::evidence::Evidence;

/// Longer than a gateway takes to end slow connections.
pub const LONG: Duration = Duration::from_secs(180);

/// Sends a byte on each connection every half second, for this time or until the gateway has ended all of them. Notes
/// how many it has ended (`cut_off`), and how many of another caller's runs ended meanwhile (`served`).
///
/// # Errors
/// A run of the other caller did not end as it should.
pub async fn drip(mut slow: Vec<TcpStream>, time: Duration, other: &Gateway) -> Result<Evidence> {
    let (mut served, begun) = (0, Instant::now());
    let mut cut_off = 0;
    while begun.elapsed() < time && !slow.is_empty() {
        other.honest().await?;
        served += 1;
        let mut open = Vec::new();
        for mut stream in slow {
            let mut told = [0; 512];
            let ended = match tokio::time::timeout(Duration::from_millis(1), stream.read(&mut told)).await {
                Ok(read) => read.unwrap_or(0) == 0,
                Err(_) => stream.write_all(b" ").await.is_err(),
            };
            if ended { cut_off += 1 } else { open.push(stream) }
        }
        slow = open;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let mut evidence = Evidence::default();
    evidence.note("served", served);
    evidence.note("cut_off", cut_off);
    Ok(evidence)
}
