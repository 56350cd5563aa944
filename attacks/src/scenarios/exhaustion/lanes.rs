//! Jobs for countless submit queues and pools.

use anyhow::Result;
use lapin::options::BasicPublishOptions;
use serde_json::json;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::broker::unique;

pub(super) const SHEET: &str = r#"
tries = "submits jobs under a thousand unknown keys: other pools, other classes, longer and shorter keys, patterns"
wins = "a queue and a channel for each key: the broker's memory, and the scheduler's channels"
guard = "the scheduler makes a queue only for a job that passed its checks, and only of an existing pool; it refuses all others"
uncontrolled = "pool names come from the operator, and no scheduler accepts any name"
held = { lanes = 0, served = 1 }
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let (attacker, witness, name) = (site.attacker().await?, site.witness().await?, unique("p"));
    let channel = attacker.channel().await?;
    let mut confirms = Vec::new();
    for n in 0..1000 {
        let key = match n % 5 {
            0 => format!("acme.normal.{name}-{n}"),
            1 => format!("acme.urgent{n}.default"),
            2 => format!("acme.normal.default.{n}"),
            3 => format!("acme.{n}"),
            _ => "acme.#".to_owned(),
        };
        let body = json!({ "id": unique("lane"), "code": "", "pool": format!("{name}-{n}") }).to_string();
        let (to, key, options) = ("submit".into(), key.as_str().into(), BasicPublishOptions::default());
        confirms.push(channel.basic_publish(to, key, options, body.as_bytes(), attacker.signed("acme")).await?);
    }
    for confirm in confirms {
        confirm.await?;
    }
    site.honest().await?;
    let (mut evidence, mut lanes) = (Evidence::default(), 0);
    for n in (0..1000).step_by(5) {
        lanes += usize::from(witness.exists(&format!("submit.acme.normal.{name}-{n}")).await?);
    }
    evidence.note("lanes", lanes);
    evidence.note("served", 1);
    Ok(evidence)
}
