//! Runs many jobs of the attacker at once, and measures what they cost other tenants.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use thermae_client::ToolHandler;
use thermae_schemas::{Job, Outcome};

use super::{Site, soon, within};
use crate::evidence::Evidence;

/// Longer than these jobs take.
const JOB_TIMEOUT: Duration = Duration::from_secs(90);

/// Runs `jobs`, and jobs of another tenant until they have ended. Notes how many MiB the worker has grown at its peak
/// (`memory`), and how many of the other tenant's jobs ended meanwhile (`served`).
///
/// # Errors
/// A job of the other tenant did not end as it should, or one of `jobs` did not end.
pub async fn under(
    site: &Site,
    jobs: Vec<Job>,
    tools: Option<Arc<dyn ToolHandler>>,
) -> Result<(Evidence, Vec<Outcome>)> {
    let before = site.worker.begin_memory()?;
    let mut handles = Vec::new();
    for job in jobs {
        handles.push(soon("a submit", site.acme.submit(job, tools.clone())).await??);
    }
    let ended = async {
        let mut outcomes = Vec::new();
        for handle in &handles {
            outcomes.push(within(JOB_TIMEOUT, "an attacker's job", handle.result()).await??);
        }
        Ok::<_, anyhow::Error>(outcomes)
    };
    tokio::pin!(ended);
    site.honest().await?;
    let mut served = 1;
    let outcomes = loop {
        tokio::select! {
            biased;
            outcomes = &mut ended => break outcomes?,
            ended = site.honest() => {
                ended?;
                served += 1;
            }
        }
    };
    let mut evidence = Evidence::default();
    evidence.note("memory", site.worker.largest_memory()?.saturating_sub(before));
    evidence.note("served", served);
    Ok((evidence, outcomes))
}
