//! Approval of the attacker's own call, by the user that submitted the job.

use anyhow::Result;
use lapin::ExchangeKind;
use lapin::options::{ExchangeBindOptions, ExchangeDeclareOptions, QueueDeclareOptions};
use lapin::types::FieldTable;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::asking::Asking;
use crate::fleet::broker::{answer, table, unique};

pub(super) const SHEET: &str = r#"
tries = "has a call of its own job that waits for approval, and a user that may submit and answer but not approve: sends the decision to `approvals`, to `calls` as if it were an answer, and towards `approvals` by an alternate exchange, a binding and a dead letter of its own"
wins = "a call that nobody approved"
guard = "only users that may approve can write to `approvals`, and RabbitMQ lets nobody else point an exchange or a queue there; what comes by `calls` decides nothing"
control = {}
held = { direct = "ACCESS_REFUSED", answer = "worked", alternate = "ACCESS_REFUSED", binding = "ACCESS_REFUSED", dead_letter = "ACCESS_REFUSED", got = "approval_denied\n" }
open = { direct = "worked", got = "made\n" }
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let (attacker, mine) = (site.attacker().await?, Asking::begin(&site.acme).await?);
    let (yes, key) = (mine.decision("approve"), &mine.asked.reply_to);
    let mut evidence = Evidence::default();
    for (what, exchange) in [("answer", "calls"), ("direct", "approvals")] {
        evidence.note(what, attacker.publish(exchange, key, &yes, attacker.signed("acme")).await?);
    }
    if !site.lifted {
        let (name, passes) = (format!("replies.acme.{}", unique("x")), table(&[("alternate-exchange", "approvals")]));
        let (topic, options) = (ExchangeKind::Topic, ExchangeDeclareOptions::default());
        let declared = attacker.channel().await?.exchange_declare(name.as_str().into(), topic, options, passes).await;
        evidence.note("alternate", answer(declared));
        let own = attacker.exchange(ExchangeKind::Fanout, FieldTable::default()).await?;
        let (to, from, options) = ("approvals".into(), own.as_str().into(), ExchangeBindOptions::default());
        let bound = attacker.channel().await?.exchange_bind(to, from, "".into(), options, FieldTable::default()).await;
        evidence.note("binding", answer(bound));
        let trap = format!("replies.acme.{}", unique("trap"));
        let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
        let dead = table(&[("x-dead-letter-exchange", "approvals"), ("x-dead-letter-routing-key", key.as_str())]);
        let declared = attacker.channel().await?.queue_declare(trap.as_str().into(), options, dead).await;
        evidence.note("dead_letter", answer(declared));
    }
    // The worker hears of this decision after all others.
    evidence.note("got", mine.end(site).await?);
    Ok(evidence)
}
