//! Sends messages under other tenants' keys in several ways, and counts what becomes of them.

use anyhow::Result;
use lapin::BasicProperties;
use lapin::types::AMQPValue;
use serde_json::json;

use super::broker::{Attacker, table, text, unique};
use super::{Site, until};
use crate::evidence::Evidence;

/// Routing keys of the victims: for a job, a cancel, a question, a request to a session, and a job of a tenant that
/// doesn't exist.
pub const KEYS: [&str; 5] =
    ["globex.normal.default", "globex.cancel", "globex.query", "globex.request", "initech.normal.default"];

fn body(key: &str, nonce: &str) -> String {
    match key.rsplit('.').next() {
        Some("cancel") => json!({ "job": nonce }).to_string(),
        Some("query") => json!({ "id": nonce, "what": "sessions" }).to_string(),
        Some("request") => json!({ "id": nonce, "session": "s", "exec": { "shell": "id" } }).to_string(),
        _ => json!({ "id": nonce, "code": "print('forged')" }).to_string(),
    }
}

/// Three claims about the sender: none, the true one, and one that it speaks for the victim.
fn claims(attacker: &Attacker) -> [BasicProperties; 3] {
    let plain = || BasicProperties::default().with_delivery_mode(2).with_reply_to("globex.victim".into());
    let signed = || plain().with_user_id(attacker.user.as_str().into());
    [plain(), signed(), signed().with_headers(table(&[("x-tenant", "globex")]))]
}

/// Sends one message for each key in `ways` and each claim, to the exchange beside the key. That exchange passes
/// messages on to the fleet's. With `header`, messages have a key of the attacker's own, and the victim's key in that
/// header.
///
/// Notes how many messages RabbitMQ took, how many it carried under the victims' keys, how many of them the scheduler
/// dropped, and how many messages a victim got because of them.
///
/// # Errors
/// The attack could not be tried.
pub async fn by_way_of(
    site: &Site,
    attacker: &Attacker,
    ways: &[(&str, String)],
    header: Option<&str>,
) -> Result<Evidence> {
    let (witness, nonce) = (site.witness().await?, unique("forged"));
    // After this job, the victim has a lane. There is no tap for the tenant without a lane: RabbitMQ treats a message
    // that reaches a tap as routed.
    site.honest().await?;
    let carried = witness.tap("submit", "globex.#").await?;
    let told = [witness.tap("replies", "globex.#").await?, witness.tap("replies", "initech.#").await?];
    let before = site.scheduler.metric("thermae_scheduler_forged_total")?;
    let (mut taken, mut to_victim) = (0, 0);
    for (victims, exchange) in ways {
        let (own, body) = (victims.replacen("globex", "acme", 1), body(victims, &nonce));
        for mut said in claims(attacker) {
            if let Some(header) = header {
                let mut headers = said.headers().clone().unwrap_or_default();
                headers.insert(header.into(), AMQPValue::FieldArray(vec![text(victims)].into()));
                said = said.with_headers(headers);
            }
            let key = if header.is_some() { own.as_str() } else { victims };
            let worked = usize::from(attacker.publish(exchange, key, body.as_bytes(), said).await? == "worked");
            taken += worked;
            to_victim += if victims.starts_with("globex.") { worked } else { 0 };
        }
    }
    let mut arrived = 0;
    until("RabbitMQ's carrying", async || {
        arrived += carried.count("", &nonce).await?;
        Ok(arrived >= to_victim)
    })
    .await?;
    let dropped = || Ok::<_, anyhow::Error>(site.scheduler.metric("thermae_scheduler_forged_total")? - before);
    until("the scheduler's dropping them", async || Ok(dropped()? >= taken as f64)).await?;
    site.honest().await?;
    let mut evidence = Evidence::default();
    evidence.note("taken", taken);
    evidence.note("carried", arrived);
    evidence.note("dropped", dropped()?);
    evidence.note("told", told[0].count("", &nonce).await? + told[1].count("", &nonce).await?);
    evidence.note("lane_of_nobody", witness.exists("submit.initech.normal.default").await?);
    Ok(evidence)
}
