//! Operations on queues of other tenants and of the fleet.

use anyhow::Result;
use lapin::options::{
    BasicGetOptions, ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions,
    QueuePurgeOptions,
};
use lapin::types::FieldTable;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::broker::{Attacker, answer, unique};

pub(super) const SHEET: &str = r#"
tries = "reads, purges, deletes, binds and declares queues of another tenant and of the fleet, and deletes the fleet's exchanges"
wins = "others' jobs and results; the end of the fleet"
guard = "RabbitMQ's permissions give a tenant only its own reply queues (a tenant can still learn whether a queue exists and how deep it is; nothing else is promised)"
control = {}
[held]
'*' = "ACCESS_REFUSED"
asked = "worked"
[open]
read = "worked"
bound = "worked"
declared = "worked"
purged = "worked"
deleted = "worked"
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let (attacker, witness) = (site.attacker().await?, site.witness().await?);
    let mut evidence = Evidence::default();
    // A queue in the victim's name, for the attempts that do harm.
    let victims = format!("replies.globex.{}", unique("victim"));
    let options = QueueDeclareOptions::default();
    witness.channel().await?.queue_declare(victims.as_str().into(), options, FieldTable::default()).await?;
    harm(&attacker, &victims, &mut evidence).await?;
    let _ = witness.channel().await?.queue_delete(victims.as_str().into(), QueueDeleteOptions::default()).await;
    if site.lifted {
        return Ok(evidence);
    }
    for queue in ["submit.globex.normal.default", "submit.unrouted", "work.pool.default", "work.workers", "resolve"] {
        let got = attacker.channel().await?.basic_get(queue.into(), BasicGetOptions::default()).await;
        evidence.note(&format!("read {queue}"), answer(got));
        evidence.note(&format!("consumed {queue}"), attacker.consume(queue).await?);
        let purged = attacker.channel().await?.queue_purge(queue.into(), QueuePurgeOptions::default()).await;
        evidence.note(&format!("purged {queue}"), answer(purged));
        let deleted = attacker.channel().await?.queue_delete(queue.into(), QueueDeleteOptions::default()).await;
        evidence.note(&format!("deleted {queue}"), answer(deleted));
    }
    for exchange in ["submit", "calls", "replies", "work", "resolve"] {
        let deleted =
            attacker.channel().await?.exchange_delete(exchange.into(), ExchangeDeleteOptions::default()).await;
        evidence.note(&format!("deleted exchange {exchange}"), answer(deleted));
    }
    Ok(evidence)
}

async fn harm(attacker: &Attacker, victims: &str, evidence: &mut Evidence) -> Result<()> {
    let name = || victims.into();
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    evidence
        .note("asked", answer(attacker.channel().await?.queue_declare(name(), passive, FieldTable::default()).await));
    let got = attacker.channel().await?.basic_get(name(), BasicGetOptions::default()).await;
    evidence.note("read", answer(got));
    let (from, key, options) = ("replies".into(), "acme.x".into(), QueueBindOptions::default());
    let bound = attacker.channel().await?.queue_bind(name(), from, key, options, FieldTable::default()).await;
    evidence.note("bound", answer(bound));
    let options = QueueDeclareOptions { auto_delete: true, ..QueueDeclareOptions::default() };
    let other = format!("submit.globex.low.{}", unique("pool"));
    let declared = attacker.channel().await?.queue_declare(other.as_str().into(), options, FieldTable::default()).await;
    evidence.note("declared", answer(declared));
    let _ = attacker.channel().await?.queue_delete(other.as_str().into(), QueueDeleteOptions::default()).await;
    let purged = attacker.channel().await?.queue_purge(name(), QueuePurgeOptions::default()).await;
    evidence.note("purged", answer(purged));
    let deleted = attacker.channel().await?.queue_delete(name(), QueueDeleteOptions::default()).await;
    evidence.note("deleted", answer(deleted));
    Ok(())
}
