//! Cancels, questions and forged messages without end.

use std::time::Duration;

use anyhow::Result;
use lapin::options::BasicPublishOptions;
use serde_json::json;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::broker::unique;

pub(super) const SHEET: &str = r#"
tries = "sends three thousand messages at once: cancels, questions, jobs without a sender, and tool answers for nobody"
wins = "delays for the cancels and questions of others, and for their jobs, behind messages that are only dropped"
guard = "each message costs little work, which is done beside all other work; a job without a sender is rejected"
uncontrolled = "the attack is one of volume, and there is no guard to turn off"
held = { asked = 1, served = 1 }
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let attacker = site.attacker().await?;
    let channel = attacker.channel().await?;
    let mut confirms = Vec::new();
    for n in 0..3000 {
        let (to, key, body) = match n % 4 {
            0 => ("submit", "acme.cancel", json!({ "job": unique("nobody") })),
            1 => ("submit", "acme.query", json!({ "id": unique("q"), "what": "sessions" })),
            2 => ("calls", "acme.attacks", json!({ "call": unique("call"), "ok": 1 })),
            _ => ("submit", "acme.normal.default", json!({ "id": unique("unsigned"), "code": "" })),
        };
        let mut said = attacker.signed("acme").with_reply_to("acme.nobody".into());
        if n % 4 == 3 {
            said = lapin::BasicProperties::default();
        }
        let (to, key, options) = (to.into(), key.into(), BasicPublishOptions::default());
        confirms.push(channel.basic_publish(to, key, options, body.to_string().as_bytes(), said).await?);
    }
    for confirm in confirms {
        confirm.await?;
    }
    site.globex.sessions(Duration::from_secs(60)).await?;
    let mut evidence = Evidence::default();
    evidence.note("asked", 1);
    site.honest().await?;
    evidence.note("served", 1);
    Ok(evidence)
}
