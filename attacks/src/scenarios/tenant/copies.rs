//! Forged messages with a second routing key in a header.

use anyhow::Result;
use serde_json::Value;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::forging::{KEYS, by_way_of};

pub(super) const SHEET: &str = r#"
tries = "sends jobs under its own key, with another tenant's key in a `CC` or a `BCC` header"
wins = "jobs that run as the victim's"
guard = "RabbitMQ 4.0 and later checks such keys; with earlier versions the copy keeps the first key, and the scheduler drops a message whose key does not belong to its queue's tenant"
uncontrolled = "no permission keeps RabbitMQ from carrying such messages; the attack counts those that arrive under the victims' keys, which proves that the way is open"
held = { CC = { any = [3, 0] }, BCC = { any = [3, 0] }, CC_told = 0, BCC_told = 0, CC_kept = 0.0, BCC_kept = 0.0 }
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let attacker = site.attacker().await?;
    let mut evidence = Evidence::default();
    for header in ["CC", "BCC"] {
        let found = by_way_of(site, &attacker, &[(KEYS[0], "submit".to_owned())], Some(header)).await?;
        let number = |name| found.get(name).and_then(Value::as_f64).unwrap_or_default();
        evidence.note(header, number("carried") as u64);
        evidence.note(&format!("{header}_told"), number("told") as u64);
        evidence.note(&format!("{header}_kept"), number("carried") - number("dropped"));
    }
    Ok(evidence)
}
