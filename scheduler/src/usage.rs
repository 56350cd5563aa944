//! Asks Redis at intervals how much memory it uses, for the metrics.

use std::time::Duration;

use crate::context::Context;

/// Longest time between two looks.
const EVERY: Duration = Duration::from_secs(5);

/// Runs until this scheduler no longer leads.
pub(crate) async fn run(ctx: Context) {
    let pause = EVERY.min(ctx.options.tick.duration() * 5);
    loop {
        match ctx.registry.usage().await {
            Ok(usage) => ctx.metrics.usage(&usage, ctx.options.outcome_bytes.as_u64()),
            // The parts that need Redis for a job report the outage.
            Err(error) => tracing::debug!(%error, "can't ask Redis how full it is"),
        }
        if ctx.stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return;
        }
    }
}
