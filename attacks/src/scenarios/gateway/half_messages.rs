//! Messages of SDKs that never end.

use std::time::Duration;

use anyhow::Result;
use futures::future::join_all;
use tokio::io::AsyncWriteExt;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::keyed::ALL;
use crate::fleet::socket::{BINARY, LAST, MORE, PING, Socket, announced, frame};

pub(super) const SHEET: &str = r#"
tries = "begins a message of 24 MiB on each of forty connections of SDKs and leaves out its last byte: half of them as one frame, half as frames of 64 KiB with empty ones and pings between them"
wins = "the gateway's memory, which no bound of bytes counts before a message is whole"
guard = "what has come of a message counts among the bytes that a connection, its tenant and all callers may hold; a connection beyond that ends"
slow = true
control = {}
held = { memory = { max = 450 }, served = { min = 1 }, victims = "opened" }
open = { memory = { min = 600 } }
"#;

const CONNECTIONS: usize = 40;
const MESSAGE: usize = 24 << 20;
const PART: usize = 64 << 10;
/// So many of these parts go with one ping that the pings alone do not end the connection.
const PER_PING: usize = 8;

/// Longer than the gateway takes for these bytes.
const SENT: Duration = Duration::from_secs(30);

/// Sends all but the last byte of a message, as far as the gateway takes it.
async fn most_of_a_message(socket: &mut Socket, in_parts: bool) {
    let sent = async {
        let (part, mut left) = (vec![b' '; PART], MESSAGE - 1);
        let begin = if in_parts { frame(BINARY, b"") } else { announced(LAST | BINARY, MESSAGE as u64) };
        socket.stream.write_all(&begin).await?;
        let mut parts = 0;
        while left > 0 {
            let part = &part[..PART.min(left)];
            parts += 1;
            if in_parts {
                let ping = if parts % PER_PING == 0 { frame(LAST | PING, b"") } else { Vec::new() };
                socket.stream.write_all(&[frame(MORE, part), frame(MORE, b""), ping].concat()).await?;
            } else {
                socket.stream.write_all(part).await?;
            }
            left -= part.len();
        }
        std::io::Result::Ok(())
    };
    // The gateway may end the connection meanwhile.
    let _ = tokio::time::timeout(SENT, sent).await;
}

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.keyed().await?;
    let (holder, other) = (gateway.holder("acme", ALL)?, gateway.holder("globex", ALL)?);
    other.honest().await?;
    let mut sockets = Vec::new();
    for _ in 0..CONNECTIONS {
        sockets.push(holder.socket().await?);
    }
    let before = gateway.process().begin_memory()?;
    let sending = join_all(sockets.iter_mut().enumerate().map(|(n, socket)| most_of_a_message(socket, n % 2 == 0)));
    tokio::pin!(sending);
    other.honest().await?;
    let mut served = 1;
    loop {
        tokio::select! {
            biased;
            _ = &mut sending => break,
            ended = other.honest() => {
                ended?;
                served += 1;
            }
        }
    }
    let mut evidence = Evidence::default();
    evidence.note("memory", gateway.process().largest_memory()?.saturating_sub(before));
    evidence.note("served", served);
    evidence.note("victims", if other.sdk().await.is_ok() { "opened" } else { "refused" });
    Ok(evidence)
}
