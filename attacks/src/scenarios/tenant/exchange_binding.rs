//! Forged messages through a binding from an exchange of the attacker's to the fleet's.

use anyhow::Result;
use lapin::ExchangeKind;
use lapin::options::ExchangeBindOptions;
use lapin::types::FieldTable;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::forging::{KEYS, by_way_of};

pub(super) const SHEET: &str = r#"
tries = "binds an exchange of its own to `submit`, and sends jobs, cancels and questions through it under another tenant's keys"
wins = "everything that the victim may do: its sessions, its jobs, its results"
guard = "each message must name its sender in `user_id` and must have been published to the right exchange; the scheduler drops and counts the others, and does not answer them"
uncontrolled = "no permission keeps RabbitMQ from carrying such messages; the attack counts those that arrive under the victims' keys, which proves that the way is open"
held = { taken = 15, carried = 12, dropped = 15.0, told = 0, lane_of_nobody = false }
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let attacker = site.attacker().await?;
    let exchange = attacker.exchange(ExchangeKind::Fanout, FieldTable::default()).await?;
    let (to, from, options) = ("submit".into(), exchange.as_str().into(), ExchangeBindOptions::default());
    attacker.channel().await?.exchange_bind(to, from, "".into(), options, FieldTable::default()).await?;
    by_way_of(site, &attacker, &KEYS.map(|key| (key, exchange.clone())), None).await
}
