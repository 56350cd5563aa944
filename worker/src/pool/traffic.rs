//! How much a tenant's jobs move through a pool.
//!
//! What they stream, ask of tools and leave as outcomes goes through RabbitMQ and Redis, which all tenants share: a few megabytes at a time
//! keep their disks and connections from everybody else. So each tenant has an allowance. Beyond it, its jobs wait: the running ones
//! before the worker takes more output from them, the next ones before they start.

use std::time::Duration;

use thermae_backplane::allowance::Allowance;
use thermae_schemas::TenantName;
use tokio::time::Instant;

/// A tenant may move so many seconds' worth at once.
const BURST: Duration = Duration::from_secs(4);
/// A tenant never waits longer than this for what it moved before.
const MOST: Duration = Duration::from_secs(10);

/// What each tenant has moved of late.
#[derive(Debug)]
pub(crate) struct Traffic {
    /// Bytes a second.
    rate: u64,
    allowance: Allowance,
}

impl Traffic {
    /// So many bytes a second are a tenant's.
    pub(crate) fn new(rate: u64) -> Self {
        Self { rate, allowance: Allowance::new(BURST, MOST) }
    }

    /// So many bytes of a tenant's are on their way.
    pub(crate) fn count(&self, tenant: &TenantName, bytes: usize) {
        self.allowance.spend(tenant, bytes as u64, self.rate, Instant::now());
    }

    /// Until when a tenant must wait, if it must.
    pub(crate) fn owes_until(&self, tenant: &TenantName) -> Option<Instant> {
        let now = Instant::now();
        let wait = self.allowance.wait(tenant, now);
        (!wait.is_zero()).then(|| now + wait)
    }

    /// Waits until a tenant owes nothing, and no longer than one may owe.
    pub(crate) async fn settled(&self, tenant: &TenantName) {
        let most = Instant::now() + MOST;
        while let Some(until) = self.owes_until(tenant)
            && Instant::now() < most
        {
            tokio::time::sleep_until(until.min(most)).await;
        }
    }
}
