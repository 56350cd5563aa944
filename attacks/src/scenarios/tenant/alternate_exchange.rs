//! Forged messages through an exchange of the attacker's whose alternate exchange is the fleet's.

use anyhow::Result;
use lapin::ExchangeKind;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::broker::table;
use crate::fleet::forging::{KEYS, by_way_of};

pub(super) const SHEET: &str = r#"
tries = "declares an exchange with `alternate-exchange = submit`, and sends jobs, cancels and questions through it under another tenant's keys"
wins = "everything that the victim may do: its sessions, its jobs, its results"
guard = "each message must name its sender in `user_id` and must have been published to the right exchange; the scheduler drops and counts the others, and does not answer them"
uncontrolled = "no permission keeps RabbitMQ from carrying such messages; the attack counts those that arrive under the victims' keys, which proves that the way is open"
held = { taken = 15, carried = 12, dropped = 15.0, told = 0, lane_of_nobody = false }
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let attacker = site.attacker().await?;
    let exchange = attacker.exchange(ExchangeKind::Topic, table(&[("alternate-exchange", "submit")])).await?;
    by_way_of(site, &attacker, &KEYS.map(|key| (key, exchange.clone())), None).await
}
