//! How much the jobs of each tenant move through a pool.
//!
//! What jobs stream, ask tools and leave as outcomes goes through RabbitMQ and Redis, which all tenants share. A few
//! megabytes keep their disks and connections busy for a while. So each tenant has an allowance. If a tenant exceeds
//! it, its jobs wait: running jobs before the worker takes more of their output, and other jobs before they start.

use std::time::Duration;

use thermae_backplane::allowance::Allowance;
use thermae_schemas::TenantName;
use tokio::time::Instant;

/// A tenant may move this many seconds' worth at once.
const BURST: Duration = Duration::from_secs(4);
/// A tenant never waits longer than this for what it moved before.
const MOST: Duration = Duration::from_secs(10);

/// What each tenant has moved recently.
#[derive(Debug)]
pub(crate) struct Traffic {
    /// Bytes per second that a tenant may move.
    rate: u64,
    allowance: Allowance,
}

impl Traffic {
    /// Lets each tenant move `rate` bytes per second.
    pub(crate) fn new(rate: u64) -> Self {
        Self { rate, allowance: Allowance::new(BURST, MOST) }
    }

    /// Counts bytes that a tenant moves.
    pub(crate) fn count(&self, tenant: &TenantName, bytes: usize) {
        self.allowance.spend(tenant, bytes as u64, self.rate, Instant::now());
    }

    /// Until when a tenant must wait; `None` if it need not wait.
    pub(crate) fn owes_until(&self, tenant: &TenantName) -> Option<Instant> {
        let now = Instant::now();
        let wait = self.allowance.wait(tenant, now);
        (!wait.is_zero()).then(|| now + wait)
    }

    /// Waits until a tenant may move more, but no longer than `MOST`.
    pub(crate) async fn wait_for_allowance(&self, tenant: &TenantName) {
        let most = Instant::now() + MOST;
        while let Some(until) = self.owes_until(tenant)
            && Instant::now() < most
        {
            tokio::time::sleep_until(until.min(most)).await;
        }
    }
}
