//! Frames that come a byte at a time.

use std::time::Duration;

use anyhow::Result;
use tokio::io::AsyncWriteExt;

use crate::evidence::Evidence;
use crate::fleet::keyed::ALL;
use crate::fleet::socket::{BINARY, LAST, announced};
use crate::fleet::{Site, slow};

pub(super) const SHEET: &str = r#"
tries = "opens a hundred connections of SDKs, announces a frame of a megabyte on each, and sends a byte of it twice a second"
wins = "the gateway's connections of SDKs, at next to no cost"
guard = "a connection ends if no message was whole for 45 seconds; others are served meanwhile"
slow = true
control = {}
held = { served = { min = 1 }, cut_off = 100 }
open = { cut_off = 0 }
"#;

const SLOW: usize = 100;

/// Longer than the gateway with guards waits for a sign of life.
const CUT_OFF: Duration = Duration::from_secs(60);

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.keyed().await?;
    let (holder, other) = (gateway.holder("acme", ALL)?, gateway.holder("globex", ALL)?);
    let mut streams = Vec::new();
    for _ in 0..SLOW {
        let mut socket = holder.socket().await?;
        socket.stream.write_all(&announced(LAST | BINARY, 1 << 20)).await?;
        streams.push(socket.stream);
    }
    slow::drip(streams, if site.lifted { CUT_OFF } else { slow::LONG }, &other).await
}
