//! Messages that are too large.

use anyhow::Result;

use crate::evidence::Evidence;
use crate::fleet::Site;

pub(super) const SHEET: &str = r#"
tries = "submits a job of 17 MiB, an answer of 17 MiB, and jobs of 15 MiB, which RabbitMQ accepts and the scheduler does not"
wins = "memory of the broker, the scheduler and the worker"
guard = "RabbitMQ's `max_message_size`; the scheduler's `max_job_bytes`, which it checks before it reads a job"
uncontrolled = "the bound is RabbitMQ's own, and the same for everybody"
held = { job = "PRECONDITION_FAILED", answer = "PRECONDITION_FAILED", below = "worked", memory = { max = 200 } }
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    let memory = site.scheduler.begin_memory()?;
    let large = vec![b'['; 17 << 20];
    for (name, exchange, key) in [("job", "submit", "acme.normal.default"), ("answer", "calls", "acme.attacks")] {
        let attacker = site.attacker().await?;
        evidence.note(name, attacker.publish(exchange, key, &large, attacker.signed("acme")).await?);
    }
    let attacker = site.attacker().await?;
    for _ in 0..8 {
        let sent =
            attacker.publish("submit", "acme.normal.default", &large[..15 << 20], attacker.signed("acme")).await?;
        evidence.note("below", sent);
    }
    site.honest().await?;
    evidence.note("memory", site.scheduler.largest_memory()?.saturating_sub(memory));
    Ok(evidence)
}
