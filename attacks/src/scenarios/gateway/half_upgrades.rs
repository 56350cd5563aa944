//! Requests for an SDK's connection that are not finished, or that nobody may make.

use anyhow::Result;
use tokio::io::AsyncWriteExt;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::keyed::ALL;
use crate::fleet::socket::UPGRADE;
use crate::fleet::soon;

pub(super) const SHEET: &str = r#"
tries = "asks for an SDK's connection on six hundred connections: without a key, with a forged one, and without the end of the headers; and says nothing more"
wins = "the connections that the gateway has for SDKs"
guard = "only an SDK with a key has a place among them; a connection without a request gives way to new ones"
uncontrolled = "such connections give way in every gateway; the control of `gateway/crowds` shows how the places of SDKs with a key run out"
held = { victims = "an SDK", served = 5 }
"#;

/// As many as one process may open beside what it has open anyway, and more than the gateway has for SDKs.
const CONNECTIONS: usize = 600;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.keyed().await?;
    let holder = gateway.holder("globex", ALL)?;
    let forged = format!("Authorization: Bearer thm_{}_{}\r\n\r\n", "0".repeat(16), "0".repeat(64));
    let unfinished = format!("Authorization: Bearer {}\r\n", holder.secret());
    let mut half = Vec::new();
    for n in 0..CONNECTIONS {
        let mut stream = holder.connect().await?;
        let end = ["\r\n", forged.as_str(), unfinished.as_str()][n % 3];
        stream.write_all(format!("GET /v1/connect HTTP/1.1\r\nHost: gateway\r\n{UPGRADE}{end}").as_bytes()).await?;
        half.push(stream);
    }
    let mut evidence = Evidence::default();
    let victims = soon("an SDK", holder.upgrade(&format!("{UPGRADE}{}", holder.headers()))).await??;
    evidence.note("victims", victims.err().map_or_else(|| "an SDK".to_owned(), |told| told.code()));
    for _ in 0..5 {
        holder.honest().await?;
    }
    evidence.note("served", 5);
    Ok(evidence)
}
