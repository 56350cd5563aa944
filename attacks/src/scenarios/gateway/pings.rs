//! Pings, as many as go.

use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::join_all;
use tokio::io::AsyncWriteExt;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::keyed::ALL;
use crate::fleet::socket::{LAST, PING, frame};

pub(super) const SHEET: &str = r#"
tries = "sends pings on eight connections of SDKs for five seconds, as fast as it can and each as long as a ping may be, and reads no answer"
wins = "the gateway's memory, by the answers that wait, and other callers' time"
guard = "a connection with more than a hundred pings between two heartbeats ends, so few answers wait"
control = {}
slow = true
held = { memory = { max = 64 }, slowest = { max = 5 } }
open = { memory = { min = 256 } }
"#;

const CONNECTIONS: usize = 8;
const TIME: Duration = Duration::from_secs(5);

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.keyed().await?;
    let (holder, other) = (gateway.holder("acme", ALL)?, gateway.holder("globex", ALL)?);
    other.honest().await?;
    let mut sockets = Vec::new();
    for _ in 0..CONNECTIONS {
        sockets.push(holder.sdk().await?);
    }
    let (before, begun) = (gateway.process().begin_memory()?, Instant::now());
    let pings = frame(LAST | PING, &[b'x'; 125]).repeat(500);
    let flooding = join_all(sockets.iter_mut().map(async |socket| {
        // The gateway may end the connection, or read no more.
        let flood = async { while socket.stream.write_all(&pings).await.is_ok() {} };
        let _ = tokio::time::timeout(TIME, flood).await;
    }));
    let served = async {
        let mut slowest = 0.0f64;
        while begun.elapsed() < TIME {
            slowest = slowest.max(other.honest().await?);
        }
        anyhow::Ok(slowest)
    };
    let (_, slowest) = tokio::join!(flooding, served);
    let mut evidence = Evidence::default();
    evidence.note("slowest", slowest?);
    evidence.note("memory", gateway.process().largest_memory()?.saturating_sub(before));
    Ok(evidence)
}
