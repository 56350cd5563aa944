//! A long queue of the attacker's own jobs.

use anyhow::Result;
use serde_json::json;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::broker::unique;

pub(super) const SHEET: &str = r#"
tries = "submits a thousand jobs of a hundred kilobytes that each run for a moment, and does not fetch their results, while another tenant's jobs come after them"
wins = "its backlog served before everybody else's; the scheduler's memory"
guard = "each tenant has its own queues, weighted fair queueing chooses among them, and what the scheduler takes ahead of its turn is bounded"
uncontrolled = "the scheduler can't run without fairness; `exhaustion/slots` has a control for the bound on one tenant's share"
held = { left = { min = 1 }, memory = { max = 300 } }
slow = true
"#;

/// Jobs of the attacker.
const BACKLOG: usize = 1000;
/// Jobs of the other tenant, which come after them. When they have ended, jobs of the attacker must be left.
const HONEST: usize = 10;
/// Jobs that have ended.
const ENDED: &str = "thermae_worker_jobs_total";

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let attacker = site.attacker().await?;
    let memory = site.scheduler.begin_memory()?;
    let before = site.worker.metric(ENDED)?;
    let padding = "#".repeat(100_000);
    for n in 0..BACKLOG {
        let code = format!("import time\ntime.sleep(0.02)\n{padding}");
        let body = json!({ "id": unique("backlog"), "code": code }).to_string();
        let key = ["acme.high.default", "acme.normal.default", "acme.low.default"][n % 3];
        attacker.publish("submit", key, body.as_bytes(), attacker.signed("acme")).await?;
    }
    for _ in 0..HONEST {
        site.honest().await?;
    }
    let ended = site.worker.metric(ENDED)? - before;
    let mut evidence = Evidence::default();
    evidence.note("left", (BACKLOG + HONEST) as f64 - ended);
    evidence.note("memory", site.scheduler.largest_memory()?.saturating_sub(memory));
    Ok(evidence)
}
