//! A key that is revoked while it is in use.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::evidence::Evidence;
use crate::fleet::broker::unique;
use crate::fleet::gateway::Gateway;
use crate::fleet::keyed::ALL;
use crate::fleet::socket::UPGRADE;
use crate::fleet::{Site, soon, until, within};

pub(super) const SHEET: &str = r#"
tries = "has an SDK's connection, a stream of events and a long wait under way when its key is revoked: goes on with all three, and comes again"
wins = "what the tenant has, for as long as it keeps its connections"
guard = "every long answer asks again and again whether the key may go on; other requests ask before anything else"
control = {}
slow = true
held = { sdk = "ended", events = "ended", wait = "key_revoked", runs = "key_revoked", again = "key_revoked" }
open = { sdk = "done", events = "result", wait = "200", runs = "200", again = "an SDK" }
"#;

/// Longer than a connection may outlive its key.
const OUTLIVES: Duration = Duration::from_secs(90);

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.keyed().await?;
    let (leaver, stays) = (gateway.holder("acme", ALL)?, gateway.holder("acme", ALL)?);
    let id = unique("wanted");
    let job = json!({ "id": id, "code": "await hold()", "tools": [{ "name": "hold" }] }).to_string();
    let begun = stays.ask("POST", "/v1/runs?wait=30s&until=call", &job).await?.json();
    let call = begun["calls"][0]["call"].as_str().context("no call")?.to_owned();

    let mut sdk = leaver.sdk().await?;
    let mut events = leaver.connect().await?;
    let head = format!("GET /v1/runs/{id}/events HTTP/1.0\r\n{}\r\n", leaver.headers());
    events.write_all(head.as_bytes()).await?;
    let mut followed = Vec::new();
    until("the event of the call", async || {
        Ok(events.read_buf(&mut followed).await? > 0 && contains(&followed, "tool_call"))
    })
    .await?;
    // The gateway has just looked the key up, so this wait is admitted.
    let mut wait = leaver.connect().await?;
    let head = format!("GET /v1/runs/{id}?wait=300s HTTP/1.0\r\n{}\r\n", leaver.headers());
    wait.write_all(head.as_bytes()).await?;
    if site.lifted {
        stays.ask("POST", &format!("/v1/runs/{id}/calls/{call}"), &json!({ "ok": null }).to_string()).await?;
    } else {
        gateway.revoke(&leaver)?;
    }
    let waited = within(OUTLIVES, "the end of the wait", Gateway::answer(wait)).await??;
    // A stream that is cut off has ended, too.
    let _ = within(OUTLIVES, "the end of the events", events.read_to_end(&mut followed)).await?;
    let mut evidence = Evidence::default();
    evidence.note("wait", waited.code());
    evidence.note("events", if contains(&followed, "event: result") { "result" } else { "ended" });
    let told = if site.lifted {
        sdk.asked(&json!({ "type": "run_info", "id": 1, "job": id }), b"").await?.code()
    } else {
        let heard = within(OUTLIVES, "the end of the SDK's connection", sdk.hear()).await??;
        heard.map_or_else(|| Value::from("ended"), |heard| heard.code())
    };
    evidence.note("sdk", told);
    evidence.note("runs", leaver.ask("GET", "/v1/runs", "").await?.code());
    let again = soon("the answer", leaver.upgrade(&format!("{UPGRADE}{}", leaver.headers()))).await??;
    evidence.note("again", again.err().map_or_else(|| "an SDK".to_owned(), |told| told.code()));
    stays.ask("DELETE", &format!("/v1/runs/{id}?wait=30s"), "").await?;
    Ok(evidence)
}

fn contains(bytes: &[u8], words: &str) -> bool {
    String::from_utf8_lossy(bytes).contains(words)
}
