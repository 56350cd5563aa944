//! A long queue of its own.

use anyhow::Result;
use serde_json::json;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::broker::unique;

pub(super) const SHEET: &str = r#"
tries = "submits a thousand jobs of a hundred kilobytes that take a moment each, and nobody fetches their results; another tenant's jobs come after them"
wins = "its backlog before everybody's; the scheduler's memory"
guard = "a queue for each tenant, weighted fair queueing, and a bound on what the scheduler holds ahead of its turn"
uncontrolled = "there is no scheduler without fairness; the bound on one tenant's share has a control in exhaustion/slots"
held = { slowest = { max = 10 }, memory = { max = 300 } }
slow = true
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let attacker = site.attacker().await?;
    let memory = site.scheduler.begin_memory()?;
    let padding = "#".repeat(100_000);
    for n in 0..1000 {
        let code = format!("import time\ntime.sleep(0.02)\n{padding}");
        let body = json!({ "id": unique("backlog"), "code": code }).to_string();
        let key = ["acme.high.default", "acme.normal.default", "acme.low.default"][n % 3];
        attacker.publish("submit", key, body.as_bytes(), attacker.signed("acme")).await?;
    }
    let mut slowest = 0.0f64;
    for _ in 0..10 {
        slowest = slowest.max(site.honest().await?.as_secs_f64());
    }
    let mut evidence = Evidence::default();
    evidence.note("slowest", slowest);
    evidence.note("memory", site.scheduler.largest_memory()?.saturating_sub(memory));
    Ok(evidence)
}
