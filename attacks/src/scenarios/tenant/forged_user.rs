//! In another user's name.

use anyhow::Result;
use lapin::BasicProperties;

use crate::evidence::Evidence;
use crate::fleet::Site;

pub(super) const SHEET: &str = r#"
tries = "signs messages as the victim, as the fleet's own user, as nobody's user, and as one whose name begins like its own"
wins = "the one thing that scheduler and workers believe"
guard = "RabbitMQ holds user_id against the user of the connection"
uncontrolled = "RabbitMQ holds it against everybody, an administrator included; only the tag impersonator lifts that"
[held]
'*' = "PRECONDITION_FAILED"
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let attacker = site.attacker().await?;
    let mut evidence = Evidence::default();
    for user in ["globex", "fleet", "nobody", "acme.ci", "ACME", "acme ", ""] {
        let said = BasicProperties::default().with_user_id(user.into());
        evidence.note(&format!("as {user:?}"), attacker.publish("submit", "acme.normal.default", b"{}", said).await?);
    }
    Ok(evidence)
}
