//! Retention: objects that are too old are removed from the store. One worker of a fleet does this: the one that holds
//! the lease.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio_util::sync::CancellationToken;

use crate::artifacts::{Ages, Kind, sweep};
use crate::context::Context;

/// Time between two sweeps.
const EVERY: Duration = Duration::from_secs(3600);
/// Time from a worker's start to its first sweep.
const FIRST: Duration = Duration::from_secs(300);
/// Name of the lease in the registry.
const LEASE: &str = "sweep";

/// Sweeps regularly until `end`.
pub(crate) async fn run(ctx: Arc<Context>, end: CancellationToken) {
    let options = &ctx.options;
    let ages = Ages::new(options.artifacts.keep.map(|keep| keep.0), options.record_ttl.0);
    let work = async {
        tokio::time::sleep(FIRST).await;
        loop {
            match ctx.registry.lead(LEASE, ctx.id.as_str(), EVERY * 2).await {
                Ok(true) => {
                    let removed = |kind: Kind| ctx.metrics.swept(kind.as_str());
                    if let Err(error) = sweep(&ctx.artifacts, ages, SystemTime::now(), removed).await {
                        tracing::error!(%error, "the store can't be swept");
                        ctx.metrics.swept("failed");
                    }
                }
                Ok(false) => {}
                Err(error) => tracing::debug!(%error, "can't ask the registry whether to sweep"),
            }
            tokio::time::sleep(EVERY).await;
        }
    };
    let _ = end.run_until_cancelled(work).await;
}
