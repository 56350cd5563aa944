//! Names that are not UTF-8.

use anyhow::Result;
use serde_json::json;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::broker::unique;
use crate::fleet::raw::{Raw, Said, short};

pub(super) const SHEET: &str = r#"
tries = "submits jobs and cancels whose routing key, id, reply key, type or header name is not UTF-8, or holds control characters that terminals and logs obey"
wins = "a scheduler and a worker that lose their connections whenever such a message comes, again and again, while all tenants wait"
guard = "the scheduler and the worker check each frame before the AMQP library reads it, and put question marks in place of bytes that are not UTF-8"
uncontrolled = "the fleet can't use the AMQP library without this check; the check's tests contain such a frame, at which the library was seen to close its connection"
held = { answered = true }
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let (url, tap) = (site.attackers_url().to_owned(), site.witness().await?.tap("replies", "acme.#").await?);
    let last = unique("last");
    let id = last.clone();
    tokio::task::spawn_blocking(move || -> Result<()> {
        let mut raw = Raw::connect(&url)?;
        let bad: &[u8] = b"\xff\xfe\xc3(\x1b]0;t\x07\r\n";
        let named = [short(bad), b"V".to_vec()].concat();
        for (exchange, key) in [
            ("submit", &b"acme.normal.default"[..]),
            ("submit", b"acme.low.nowhere"),
            ("submit", b"acme.cancel"),
            ("submit", b"acme.query"),
            ("submit", b"acme.\xff.default"),
            ("submit", b"acme.normal.\xff"),
            ("submit", b"acme.\xc3("),
            ("calls", b"acme.\xff"),
        ] {
            let honest = || Said {
                key: key.to_vec(),
                reply_to: b"acme.x".to_vec(),
                id: unique("odd").into(),
                ..Said::default()
            };
            for said in [
                Said { id: bad.to_vec(), ..honest() },
                Said { reply_to: bad.to_vec(), ..honest() },
                Said { content: bad.to_vec(), ..honest() },
                Said { headers: named.clone(), ..honest() },
                honest(),
            ] {
                raw.publish(exchange, &said, json!({ "id": unique("odd"), "code": "" }).to_string().as_bytes())?;
            }
        }
        let said = Said { key: b"acme.normal.nowhere".to_vec(), reply_to: b"acme.x".to_vec(), ..Said::default() };
        raw.publish("submit", &said, json!({ "id": id, "code": "" }).to_string().as_bytes())
    })
    .await??;
    crate::fleet::until("an answer to the last", async || Ok(tap.count("acme.x", &last).await? > 0)).await?;
    let mut evidence = Evidence::default();
    evidence.note("answered", true);
    Ok(evidence)
}
