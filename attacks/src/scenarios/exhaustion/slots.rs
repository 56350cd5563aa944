//! Every slot of the fleet.

use anyhow::Result;
use thermae_schemas::Job;

use crate::evidence::Evidence;
use crate::fleet::Site;

pub(super) const SHEET: &str = r#"
tries = "submits jobs that sleep for longer than anybody waits, more than the fleet has slots"
wins = "no slot for anybody else"
guard = "max_in_flight of the tenant"
control = {}
held = { served = true }
open = { served = false }
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let mut handles = Vec::new();
    for _ in 0..8 {
        handles.push(site.acme.submit(Job::python("import time\ntime.sleep(25)"), None).await?);
    }
    // Until they stand in all the slots that they get.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let served = tokio::time::timeout(std::time::Duration::from_secs(10), site.honest()).await;
    for handle in &handles {
        handle.cancel().await?;
    }
    for handle in &handles {
        crate::fleet::soon("a cancelled job", handle.result()).await??;
    }
    let mut evidence = Evidence::default();
    evidence.note("served", matches!(served, Ok(Ok(_))));
    Ok(evidence)
}
