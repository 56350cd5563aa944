//! Messages in the name of another user.

use anyhow::Result;
use lapin::BasicProperties;

use crate::evidence::Evidence;
use crate::fleet::Site;

pub(super) const SHEET: &str = r#"
tries = "signs messages as the victim, as the fleet's own user, as a user that does not exist, and as users with names similar to its own"
wins = "the one field that the scheduler and the workers believe"
guard = "RabbitMQ checks `user_id` against the user of the connection"
uncontrolled = "RabbitMQ checks everybody, including administrators; only the tag `impersonator` lifts that"
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
