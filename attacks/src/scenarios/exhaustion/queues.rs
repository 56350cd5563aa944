//! Countless queues.

use anyhow::Result;
use lapin::options::{QueueDeclareOptions, QueueDeleteOptions};

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::broker::{table, unique};

pub(super) const SHEET: &str = r#"
tries = "declares a hundred reply queues, of every type that the broker has: classic, quorum, stream"
wins = "the broker's memory and processes"
guard = "no guard limits their number, because RabbitMQ has no such limit for one user; each queue is bounded in bytes and expires, and other tenants are served meanwhile"
uncontrolled = "there is no guard to turn off"
held = { served = 5, declared = { min = 1 } }
slow = true
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let attacker = site.attacker().await?;
    let (mut mine, mut served) = (Vec::new(), 0);
    for n in 0..100 {
        let queue = format!("replies.acme.{}", unique("many"));
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let arguments = table(&[("x-queue-type", ["classic", "quorum", "stream"][n % 3])]);
        let declared = attacker.channel().await?.queue_declare(queue.as_str().into(), options, arguments).await;
        if declared.is_ok() {
            mine.push(queue);
        }
        if n % 20 == 0 {
            site.honest().await?;
            served += 1;
        }
    }
    let mut evidence = Evidence::default();
    evidence.note("served", served);
    evidence.note("declared", mine.len());
    for queue in mine {
        attacker.channel().await?.queue_delete(queue.as_str().into(), QueueDeleteOptions::default()).await?;
    }
    Ok(evidence)
}
