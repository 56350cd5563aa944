//! Removes containers that dead workers of the same fleet left. It never removes those of a living worker.
//!
//! A worker's containers end with the worker, so leftovers are rare: an engine crashed, or a runner hung. A container
//! is removed if the registry has not known its worker as alive for a while. A container that does not run is removed
//! at the next sweep, and one of an earlier boot of this worker at once.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::Leftover;
use crate::context::Context;

/// Time between two sweeps.
const EVERY: Duration = Duration::from_secs(60);

/// How long a worker must be missing before its running containers are removed.
const MISSING_FOR: Duration = Duration::from_secs(120);

/// Sweeps regularly until the worker drains.
pub(crate) async fn run(ctx: &Context) {
    let mut missing = Missing::default();
    loop {
        sweep(ctx, &mut missing).await;
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = ctx.draining.cancelled() => return,
        }
    }
}

async fn sweep(ctx: &Context, missing: &mut Missing) {
    let alive: BTreeSet<String> = match ctx.registry.workers().await {
        Ok(workers) => workers.into_iter().map(|w| w.worker.to_string()).collect(),
        // Without the registry, no worker is known to be dead.
        Err(_) => return,
    };
    let judge = Judge { fleet: &ctx.options.fleet, own: ctx.id.as_str(), alive: &alive, now: Instant::now() };
    let mut seen: Vec<usize> = Vec::new();
    for pool in ctx.pools.values() {
        let backend = pool.backend();
        let address = std::sync::Arc::as_ptr(backend).cast::<()>().addr();
        if seen.contains(&address) {
            continue;
        }
        seen.push(address);
        match backend.sweep(&mut |leftover| judge.orphaned(leftover, missing)).await {
            Ok(0) => {}
            Ok(n) => tracing::info!(containers = n, "removed containers that dead workers left"),
            Err(e) => tracing::debug!(error = %e, "can't look for containers that dead workers left"),
        }
    }
    missing.0.retain(|worker, _| !alive.contains(worker));
}

/// Workers that are missing, and since when.
#[derive(Default)]
struct Missing(HashMap<String, Instant>);

struct Judge<'a> {
    fleet: &'a str,
    own: &'a str,
    alive: &'a BTreeSet<String>,
    now: Instant,
}

impl Judge<'_> {
    fn orphaned(&self, leftover: Leftover<'_>, missing: &mut Missing) -> bool {
        let Leftover { fleet, worker, running } = leftover;
        if fleet != self.fleet || worker == self.own || self.alive.contains(worker) {
            return false;
        }
        let since = *missing.0.entry(worker.to_owned()).or_insert(self.now);
        let name = |id: &str| id.rsplit_once('-').map(|(name, _)| name.to_owned());
        name(worker) == name(self.own) || !running && since < self.now || self.now - since >= MISSING_FOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_dead_of_ones_own_fleet_are_cleared_away() {
        let alive = BTreeSet::from(["b-1".to_owned(), "a-2".to_owned()]);
        let mut missing = Missing::default();
        let begun = Instant::now();
        let mut judge = |after: Duration, fleet: &str, worker: &str, running: bool| {
            let judge = Judge { fleet: "f", own: "a-2", alive: &alive, now: begun + after };
            judge.orphaned(Leftover { fleet, worker, running }, &mut missing)
        };
        let (now, soon) = (Duration::ZERO, Duration::from_secs(60));
        assert!(!judge(now, "f", "a-2", true), "our own");
        assert!(!judge(now, "f", "b-1", true), "a living worker's");
        assert!(!judge(now, "g", "c-1", false), "another fleet's");
        assert!(judge(now, "f", "a-1", true), "an earlier boot's of ours");
        assert!(!judge(now, "f", "c-1", true) && !judge(now, "f", "d-1", false), "missing just now");
        assert!(!judge(soon, "f", "c-1", true), "not for long enough");
        assert!(judge(soon, "f", "d-1", false), "it does not even run");
        assert!(judge(soon + MISSING_FOR, "f", "c-1", true));
    }
}
