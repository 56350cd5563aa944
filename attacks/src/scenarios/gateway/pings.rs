//! Pings, as many as go.

use anyhow::Result;
use futures::future::join_all;
use tokio::io::AsyncWriteExt;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::keyed::ALL;
use crate::fleet::socket::{LAST, PING, frame};

pub(super) const SHEET: &str = r#"
tries = "sends pings on eight connections of SDKs as fast as it can, each as long as a ping may be, and reads no answer"
wins = "the gateway's memory, by the answers that wait, and other callers' time"
guard = "a connection with more than a hundred pings between two heartbeats ends, so few answers wait"
control = {}
slow = true
held = { memory = { max = 64 }, served = { min = 1 } }
open = { memory = { min = 256 } }
"#;

const CONNECTIONS: usize = 8;
/// Growth of the gateway that shows that the guard is off, in MiB.
const GROWN: u64 = 256;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.keyed().await?;
    let (holder, other) = (gateway.holder("acme", ALL)?, gateway.holder("globex", ALL)?);
    other.honest().await?;
    let mut sockets = Vec::new();
    for _ in 0..CONNECTIONS {
        sockets.push(holder.sdk().await?);
    }
    let before = gateway.process().begin_memory()?;
    let grown = || anyhow::Ok(gateway.process().largest_memory()?.saturating_sub(before));
    let pings = frame(LAST | PING, &[b'x'; 125]).repeat(500);
    // The gateway ends the connections, or grows.
    let flooding =
        join_all(sockets.iter_mut().map(async |socket| while socket.stream.write_all(&pings).await.is_ok() {}));
    tokio::pin!(flooding);
    other.honest().await?;
    let mut served = 1;
    while grown()? < GROWN {
        tokio::select! {
            biased;
            _ = &mut flooding => break,
            ended = other.honest() => {
                ended?;
                served += 1;
            }
        }
    }
    let mut evidence = Evidence::default();
    evidence.note("served", served);
    evidence.note("memory", grown()?);
    Ok(evidence)
}
