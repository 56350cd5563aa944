//! By a second key in a header.

use anyhow::Result;
use serde_json::Value;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::forging::{KEYS, by_way_of};

pub(super) const SHEET: &str = r#"
tries = "sends jobs under its own key, and under another tenant's in a CC and in a BCC header"
wins = "jobs that run as the victim's"
guard = "RabbitMQ checks such keys from 4.0 on; before, the copy keeps the first key, and the scheduler drops what is under no key of its queue's tenant"
uncontrolled = "no permission takes it away from RabbitMQ: what it carries under the victims' keys is counted, and is the proof"
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
