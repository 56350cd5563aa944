//! Runs that are paused: they wait for tool calls, have given their slots back, and keep their containers.

use std::sync::Arc;

use thermae_schemas::TenantName;

use super::Pool;

/// A paused run. Dropping it ends the pause.
pub(crate) struct Paused {
    pool: Arc<Pool>,
    tenant: TenantName,
    /// Whether the run's container counts as lent to a job. A session's does not.
    lent: bool,
}

impl Paused {
    /// Counts a run as paused. `None` if as many runs are paused as the pool's options allow.
    pub(crate) fn begin(pool: &Arc<Pool>, tenant: &TenantName, lent: bool) -> Option<Self> {
        let mut state = pool.state();
        let own = state.paused.get(tenant).copied().unwrap_or(0);
        let all: u32 = state.paused.values().sum();
        if all >= pool.options.max_paused || own >= pool.options.max_paused_per_tenant() {
            drop(state);
            pool.metrics.pauses_refused.inc();
            return None;
        }
        state.paused.insert(tenant.clone(), own + 1);
        if lent {
            state.busy -= 1;
        }
        drop(state);
        pool.wake.notify_one();
        Some(Self { pool: Arc::clone(pool), tenant: tenant.clone(), lent })
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        let mut state = self.pool.state();
        if let Some(count) = state.paused.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                state.paused.remove(&self.tenant);
            }
        }
        if self.lent {
            state.busy += 1;
        }
    }
}
