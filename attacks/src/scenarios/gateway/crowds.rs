//! SDKs that take all connections.

use anyhow::Result;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::keyed::ALL;
use crate::fleet::socket::UPGRADE;

pub(super) const SHEET: &str = r#"
tries = "opens three hundred connections of SDKs with one key, and says nothing on them"
wins = "all connections that the gateway has for SDKs, so that no other tenant's SDK connects"
guard = "one tenant has a part of the connections of SDKs, as of requests, runs and bytes"
control = {}
held = { own = 128, refused = "too_many_connections", victims = "an SDK", served = 1 }
open = { own = 256, victims = "too_many_connections" }
"#;

/// More than the gateway takes.
const CONNECTIONS: usize = 300;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.keyed().await?;
    let (holder, other) = (gateway.holder("acme", ALL)?, gateway.holder("globex", ALL)?);
    let mut evidence = Evidence::default();
    let mut sockets = Vec::new();
    for _ in 0..CONNECTIONS {
        match holder.upgrade(&format!("{UPGRADE}{}", holder.headers())).await? {
            Ok(socket) => sockets.push(socket),
            Err(told) => evidence.note("refused", told.code()),
        }
    }
    evidence.note("own", sockets.len());
    let victims = other.upgrade(&format!("{UPGRADE}{}", other.headers())).await?;
    evidence.note("victims", victims.err().map_or_else(|| "an SDK".to_owned(), |told| told.code()));
    other.honest().await?;
    evidence.note("served", 1);
    Ok(evidence)
}
