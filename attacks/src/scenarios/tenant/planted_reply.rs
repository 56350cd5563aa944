//! Results of the attacker's jobs that go to another tenant's queue.

use anyhow::Result;
use serde_json::json;

use crate::evidence::Evidence;
use crate::fleet::broker::unique;
use crate::fleet::{Site, run, soon};
use thermae_schemas::Job;

pub(super) const SHEET: &str = r#"
tries = "submits good and bad jobs of its own, whose reply key is another tenant's, names no client, or is a pattern"
wins = "results, tool calls and output in the victim's queue, under a job id of its choice"
guard = "the scheduler accepts a reply key only from that key's own tenant"
control = {}
held = { planted = 0 }
open = { planted = { min = 1 } }
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let (attacker, witness) = (site.attacker().await?, site.witness().await?);
    let told = witness.tap("replies", "globex.#").await?;
    let (nonce, mut evidence) = (unique("planted"), Evidence::default());
    // With the guards off, the attacker sends in the victim's name.
    let tenant = if site.lifted { "globex" } else { "acme" };
    for (n, key) in ["globex.victim", "globex.", "globex", "#", "*.victim", "globex.victim.x", ""].iter().enumerate() {
        let good = json!({ "id": format!("{nonce}-{n}"), "code": "print(1)", "stream": ["lifecycle", "output"] });
        for body in [good.to_string(), format!("{{\"id\": \"{nonce}-{n}\", \"code\": 1}}")] {
            let said = attacker.signed(tenant).with_reply_to((*key).into()).with_correlation_id(nonce.as_str().into());
            for to in ["normal.default", "normal.nowhere", "cancel", "query"] {
                attacker.publish("submit", &format!("{tenant}.{to}"), body.as_bytes(), said.clone()).await?;
            }
        }
    }
    // When a later job of the same tenant has ended, all earlier ones have ended, too.
    let client = if site.lifted { &site.globex } else { &site.acme };
    soon("the attacker's last job", run(client, Job::python("pass"))).await??;
    evidence.note("planted", told.count("globex.", &nonce).await?);
    Ok(evidence)
}
