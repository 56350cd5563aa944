//! A reply queue that refuses every message.

use anyhow::Result;
use lapin::options::{QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use serde_json::json;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::broker::{must, table, unique};

pub(super) const SHEET: &str = r#"
tries = "declares a reply queue that refuses every message, and submits good and bad jobs, cancels and questions whose answers go there"
wins = "a scheduler and a worker that try forever to deliver an answer, before they serve others"
guard = "the fleet gives up an answer that its own queue refuses; the answer stays recorded"
uncontrolled = "no setting turns this off"
held = { served = 5 }
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let attacker = site.attacker().await?;
    let (channel, client) = (attacker.channel().await?, unique("narrow"));
    let queue = format!("replies.acme.{client}");
    let mut arguments = table(&[("x-overflow", "reject-publish")]);
    arguments.insert("x-max-length".into(), AMQPValue::LongInt(0));
    let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(queue.as_str().into(), options, arguments).await?;
    let reply = format!("acme.{client}");
    let (name, from, key) = (queue.as_str().into(), "replies".into(), reply.as_str().into());
    channel.queue_bind(name, from, key, QueueBindOptions::default(), FieldTable::default()).await?;
    for _ in 0..10 {
        let good = json!({ "id": unique("narrow"), "code": "print(1)", "stream": ["lifecycle", "output"] }).to_string();
        for (key, body) in [
            ("acme.normal.default", good.as_str()),
            ("acme.low.default", "{"),
            ("acme.normal.nowhere", "{\"id\": \"n\", \"code\": \"\"}"),
            ("acme.cancel", "{"),
            ("acme.query", "{\"id\": \"q\", \"what\": \"sessions\"}"),
        ] {
            let said = attacker.signed("acme").with_reply_to(reply.as_str().into());
            must(&attacker.publish("submit", key, body.as_bytes(), said).await?)?;
        }
    }
    for _ in 0..5 {
        site.honest().await?;
    }
    let mut evidence = Evidence::default();
    evidence.note("served", 5);
    Ok(evidence)
}
