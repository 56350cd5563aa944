//! A key that is revoked after its store was restored from a backup.

use anyhow::Result;

use crate::evidence::Evidence;
use crate::fleet::{Site, until};

pub(super) const SHEET: &str = r#"
tries = "uses a key that is revoked after the file of the store was replaced with a copy, as one restores a backup"
wins = "what the tenant has, for as long as the gateway reads the file that it opened, which nobody can see any more"
guard = "the gateway sees by device and inode that the file is another one, refuses requests, and opens the new one"
control = {}
slow = true
held = { before = "200", after = "key_revoked", others = "200" }
open = { before = "200", after = "200" }
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.keyed().await?;
    let (leaver, stays) = (gateway.holder("acme", "read")?, gateway.holder("globex", "read")?);
    let runs = async |holder: &crate::fleet::gateway::Gateway| holder.ask("GET", "/v1/runs", "").await;
    let mut evidence = Evidence::default();
    evidence.note("before", runs(&leaver).await?.code());
    let mut store = gateway.copy_of_store()?;
    if !site.lifted {
        std::fs::rename(&store, gateway.store())?;
        store = gateway.store();
    }
    // With the guards off, the copy stays where it is, so the gateway goes on with the file that it opened.
    gateway.revoke_in(&store, &leaver)?;
    let mut after = String::new();
    let refused = until("the key is refused", async || {
        after = runs(&leaver).await?.code();
        Ok(after == "key_revoked")
    });
    let _ = tokio::time::timeout(site.patience(), refused).await;
    evidence.note("after", after);
    if !site.lifted {
        let mut others = String::new();
        until("other keys are taken again", async || {
            others = runs(&stays).await?.code();
            Ok(others == "200")
        })
        .await?;
        evidence.note("others", others);
    }
    Ok(evidence)
}
