//! Bindings of the attacker's that copy other tenants' results.

use anyhow::Result;
use lapin::ExchangeKind;
use lapin::options::{ExchangeBindOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::FieldTable;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::broker::{answer, unique};

pub(super) const SHEET: &str = r#"
tries = "binds a queue and an exchange of its own to `replies`, `submit` and `calls` under everybody's keys"
wins = "a copy of every result, job and tool answer"
guard = "RabbitMQ's topic permissions: a tenant may bind only keys that begin with its own name, and none of `submit` and `calls`"
control = {}
[held]
'*' = "ACCESS_REFUSED"
seen = 0
[open]
"queue replies #" = "worked"
"queue replies globex.#" = "worked"
"exchange submit #" = "worked"
seen = { min = 1 }
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let attacker = site.attacker().await?;
    let mut evidence = Evidence::default();
    // The attacker may bind its own key.
    let own = attacker.tap("replies", "acme.#").await?;
    let exchange = attacker.exchange(ExchangeKind::Fanout, FieldTable::default()).await?;
    for (from, key) in [
        ("replies", "#"),
        ("replies", "globex.#"),
        ("replies", "*.#"),
        ("replies", "#.acme"),
        ("submit", "#"),
        ("submit", "globex.#"),
        ("calls", "#"),
    ] {
        let (queue, source, word) = (own.queue.as_str().into(), from.into(), key.into());
        let options = QueueBindOptions::default();
        let bound = attacker.channel().await?.queue_bind(queue, source, word, options, FieldTable::default()).await;
        evidence.note(&format!("queue {from} {key}"), answer(bound));
        let (to, source, word) = (exchange.as_str().into(), from.into(), key.into());
        let options = ExchangeBindOptions::default();
        let bound = attacker.channel().await?.exchange_bind(to, source, word, options, FieldTable::default()).await;
        evidence.note(&format!("exchange {from} {key}"), answer(bound));
    }
    // A queue with the name of one of the victim's clients.
    let stolen = format!("replies.globex.{}", unique("c"));
    let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
    let declared =
        attacker.channel().await?.queue_declare(stolen.as_str().into(), options, FieldTable::default()).await;
    evidence.note("named like the victim's", answer(declared));
    site.honest().await?;
    evidence.note("seen", own.count("globex.", "").await?);
    Ok(evidence)
}
