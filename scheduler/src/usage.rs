//! Looks now and then how full Redis is, for whoever watches the metrics.

use std::time::Duration;

use crate::context::Context;

/// Between two looks, at most.
const EVERY: Duration = Duration::from_secs(5);

/// Runs until this scheduler leads no more.
pub(crate) async fn run(ctx: Context) {
    let pause = EVERY.min(ctx.options.tick.duration() * 5);
    loop {
        match ctx.registry.usage().await {
            Ok(usage) => ctx.metrics.usage(&usage, ctx.options.outcome_bytes.as_u64()),
            // Whoever needs Redis for a job says so.
            Err(error) => tracing::debug!(%error, "Redis can't be asked how full it is"),
        }
        if ctx.stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return;
        }
    }
}
