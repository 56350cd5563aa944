//! How much of what a tenant sends may be refused.
//!
//! RabbitMQ writes a message to its disk before anybody can refuse it, and all tenants share that disk. So a tenant's submit queue
//! waits after refusals that cost too much: it fills up, and RabbitMQ then refuses what the tenant publishes without writing it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use thermae_schemas::TenantName;
use tokio::time::Instant;

/// What a refusal costs at least, in bytes: its record and its answer.
const LEAST: u64 = 4096;
/// A tenant may be refused so many seconds' worth at once.
const BURST: Duration = Duration::from_secs(16);
/// Above so many tenants, those that owe nothing are forgotten.
const REMEMBERED: usize = 1024;

/// What each tenant has spent.
#[derive(Debug, Default)]
pub(super) struct Allowance {
    /// When all that a tenant has spent is paid, at the rate that it is paid at.
    paid: Mutex<HashMap<TenantName, Instant>>,
}

impl Allowance {
    /// A message of so many bytes is refused, where `rate` of them are paid a second. How long to wait before the next one.
    pub(super) fn spend(&self, tenant: &TenantName, bytes: u64, rate: u64, now: Instant) -> Duration {
        let cost = Duration::from_secs_f64(bytes.max(LEAST) as f64 / rate.max(1) as f64);
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        if paid.len() > REMEMBERED {
            paid.retain(|_, then| *then > now);
        }
        let then = paid.entry(tenant.clone()).or_insert(now);
        *then = (*then).max(now) + cost;
        then.duration_since(now).saturating_sub(BURST)
    }

    /// Whether a tenant had much refused of late: it would have to wait soon.
    pub(super) fn owes(&self, tenant: &TenantName, now: Instant) -> bool {
        let paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        paid.get(tenant).is_some_and(|then| then.saturating_duration_since(now) > BURST / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_free_and_what_follows_is_not() {
        let (allowance, now) = (Allowance::default(), Instant::now());
        let tenant = |name: &str| TenantName::new(name).unwrap();
        let (acme, globex) = (tenant("acme"), tenant("globex"));
        assert_eq!(allowance.spend(&acme, 1 << 20, 1 << 20, now), Duration::ZERO);
        assert!(!allowance.owes(&acme, now));
        assert_eq!(allowance.spend(&acme, 15 << 20, 1 << 20, now), Duration::ZERO);
        assert!(allowance.owes(&acme, now));
        assert_eq!(allowance.spend(&acme, 3 << 20, 1 << 20, now), Duration::from_secs(3));
        assert_eq!(allowance.spend(&globex, 1 << 20, 1 << 20, now), Duration::ZERO, "another tenant");
        let later = now + Duration::from_secs(19);
        assert!(!allowance.owes(&acme, later));
        assert_eq!(allowance.spend(&acme, 17 << 20, 1 << 20, later), Duration::from_secs(1));
    }

    #[test]
    fn small_refusals_cost_something_and_those_who_owe_nothing_are_forgotten() {
        let (allowance, now) = (Allowance::default(), Instant::now());
        let tenant = |n: usize| TenantName::new(format!("t{n}")).unwrap();
        assert_eq!(allowance.spend(&tenant(0), 1, 1, now), Duration::from_secs(LEAST) - BURST);
        for n in 1..=REMEMBERED {
            allowance.spend(&tenant(n), 1, LEAST, now);
        }
        allowance.spend(&tenant(1), 1, LEAST, now + BURST);
        assert_eq!(allowance.paid.lock().unwrap().len(), 2, "the first owes still");
    }
}
