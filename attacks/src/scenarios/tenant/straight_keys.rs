//! Messages sent directly: under keys that belong to others, and to exchanges that are closed to tenants.

use anyhow::Result;
use serde_json::json;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::broker::unique;

pub(super) const SHEET: &str = r#"
tries = "publishes jobs, cancels, questions, requests to sessions, tool answers, work and results under another tenant's keys, and directly into queues, past all exchanges"
wins = "everything that the victim may do; work that no scheduler has seen"
guard = "RabbitMQ's topic permissions: a tenant may write to `submit` and `calls` under its own name, and to no other exchange"
control = {}
[held]
'*' = "ACCESS_REFUSED"
[open]
'*' = "worked"
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let attacker = site.attacker().await?;
    let mut evidence = Evidence::default();
    let job = json!({ "id": unique("straight"), "code": "" }).to_string();
    for (name, exchange, key) in [
        ("job", "submit", "globex.normal.default"),
        ("cancel", "submit", "globex.cancel"),
        ("question", "submit", "globex.query"),
        ("request", "submit", "globex.request"),
        ("bare_tenant", "submit", "globex"),
        ("longer_name", "submit", "acmeglobex.normal.default"),
        ("no_tenant", "submit", ".normal.default"),
        ("tool_answer", "calls", "globex.worker"),
        ("result", "replies", "globex.client"),
        ("own_result", "replies", "acme.client"),
        ("work", "work", "pool.default"),
        ("control", "work", "control.worker"),
        ("journal", "work", "workers"),
        ("fate", "resolve", ""),
        ("unrouted", "submit.unrouted", "globex.normal.default"),
        ("queue_of_work", "", "work.pool.default"),
        ("queue_of_jobs", "", "submit.globex.normal.default"),
    ] {
        evidence.note(name, attacker.publish(exchange, key, job.as_bytes(), attacker.signed("globex")).await?);
    }
    Ok(evidence)
}
