//! By a binding from an exchange of its own to the fleet's.

use anyhow::Result;
use lapin::ExchangeKind;
use lapin::options::ExchangeBindOptions;
use lapin::types::FieldTable;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::forging::{KEYS, by_way_of};

pub(super) const SHEET: &str = r#"
tries = "binds an exchange of its own to submit, and sends jobs, cancels and questions of another tenant's through it"
wins = "whatever the victim may do: its sessions, its jobs, its results"
guard = "each message must name its sender in user_id, and the exchange that it was published to; what fails is dropped, counted and not answered"
uncontrolled = "no permission takes it away from RabbitMQ: what it carries under the victims' keys is counted, and is the proof"
held = { taken = 12, carried = 9, dropped = 12.0, told = 0, lane_of_nobody = false }
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let attacker = site.attacker().await?;
    let exchange = attacker.exchange(ExchangeKind::Fanout, FieldTable::default()).await?;
    let (to, from, options) = ("submit".into(), exchange.as_str().into(), ExchangeBindOptions::default());
    attacker.channel().await?.exchange_bind(to, from, "".into(), options, FieldTable::default()).await?;
    by_way_of(site, &attacker, &KEYS.map(|key| (key, exchange.clone())), None).await
}
