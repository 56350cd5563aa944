//! Countless connections.

use anyhow::Result;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::broker::Attacker;

pub(super) const SHEET: &str = r#"
tries = "opens a hundred connections, and leaves them open"
wins = "the broker's memory and descriptors, so that nobody else can connect"
guard = "RabbitMQ's limit on the user's connections"
control = {}
held = { opened = { max = 64 } }
open = { opened = 100 }
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let mut open = Vec::new();
    for _ in 0..100 {
        match Attacker::connect(site.attackers_url()).await {
            Ok(attacker) => open.push(attacker),
            Err(_) => break,
        }
    }
    site.honest().await?;
    let mut evidence = Evidence::default();
    evidence.note("opened", open.len());
    for attacker in open {
        attacker.connection.close(200, "done".into()).await?;
    }
    Ok(evidence)
}
