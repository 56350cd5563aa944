//! Limits how much of the shared servers each tenant may use.
//!
//! All tenants share the disks of RabbitMQ and Redis. The traffic of one tenant delays the others, so each tenant has a
//! rate in bytes a second. What it doesn't use it can use later, up to a burst. Beyond that it has to wait.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ahash::HashMap;
use thermae_schemas::TenantName;
use tokio::time::Instant;

/// If the map has more tenants than this, those that owe nothing are forgotten.
const REMEMBERED: usize = 1024;

/// What each tenant has used. Each use costs the time that the tenant's rate needs for its bytes.
#[derive(Debug)]
pub struct Allowance {
    burst: Duration,
    most: Duration,
    /// For each tenant, the moment when everything that it has used will be paid.
    paid: Mutex<HashMap<TenantName, Instant>>,
}

impl Allowance {
    /// Each tenant may use `burst` seconds' worth at once. It never has to wait longer than `most`: what it used beyond
    /// that is forgiven.
    #[must_use]
    pub fn new(burst: Duration, most: Duration) -> Self {
        Self { burst, most, paid: Mutex::default() }
    }

    /// Charges a tenant with a rate of `rate` bytes a second for `bytes`. Returns how long it must wait before it uses
    /// more.
    pub fn spend(&self, tenant: &TenantName, bytes: u64, rate: u64, now: Instant) -> Duration {
        let cost = Duration::try_from_secs_f64(bytes as f64 / rate.max(1) as f64).unwrap_or(self.most);
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        if paid.len() > REMEMBERED {
            paid.retain(|_, then| *then > now);
        }
        let then = paid.entry(tenant.clone()).or_insert(now);
        *then = ((*then).max(now) + cost).min(now + self.burst + self.most);
        then.duration_since(now).saturating_sub(self.burst)
    }

    /// How long a tenant must wait before it uses more.
    pub fn wait(&self, tenant: &TenantName, now: Instant) -> Duration {
        self.owed(tenant, now).saturating_sub(self.burst)
    }

    /// Whether a tenant has used more than half of its burst, so that it may have to wait soon.
    pub fn is_low(&self, tenant: &TenantName, now: Instant) -> bool {
        self.owed(tenant, now) > self.burst / 2
    }

    fn owed(&self, tenant: &TenantName, now: Instant) -> Duration {
        let paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        paid.get(tenant).map_or(Duration::ZERO, |then| then.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const RATE: u64 = 1 << 20;

    fn tenant(name: &str) -> TenantName {
        TenantName::new(name).unwrap()
    }

    #[test]
    fn a_burst_is_free_and_what_follows_is_not() {
        let (allowance, now) = (Allowance::new(16 * SECOND, 60 * SECOND), Instant::now());
        let (acme, globex) = (tenant("acme"), tenant("globex"));
        assert_eq!(allowance.spend(&acme, RATE, RATE, now), Duration::ZERO);
        assert!(!allowance.is_low(&acme, now));
        assert_eq!(allowance.spend(&acme, 15 * RATE, RATE, now), Duration::ZERO);
        assert!(allowance.is_low(&acme, now));
        assert_eq!(allowance.spend(&acme, 3 * RATE, RATE, now), 3 * SECOND);
        assert_eq!(allowance.wait(&acme, now), 3 * SECOND);
        assert_eq!(allowance.spend(&globex, RATE, RATE, now), Duration::ZERO, "another tenant");
        let later = now + 19 * SECOND;
        assert!(!allowance.is_low(&acme, later));
        assert_eq!(allowance.wait(&acme, later), Duration::ZERO);
        assert_eq!(allowance.spend(&acme, 17 * RATE, RATE, later), SECOND);
    }

    #[test]
    fn nobody_waits_longer_than_the_most() {
        let (allowance, now) = (Allowance::new(SECOND, 10 * SECOND), Instant::now());
        let acme = tenant("acme");
        assert_eq!(allowance.spend(&acme, 1000 * RATE, RATE, now), 10 * SECOND);
        assert_eq!(allowance.spend(&acme, u64::MAX, 1, now), 10 * SECOND, "more seconds than a duration has");
        assert_eq!(allowance.wait(&acme, now + 11 * SECOND), Duration::ZERO);
    }

    #[test]
    fn those_who_owe_nothing_are_forgotten() {
        let (allowance, now) = (Allowance::new(SECOND, 10 * SECOND), Instant::now());
        allowance.spend(&tenant("t0"), 10 * RATE, RATE, now);
        for n in 1..=REMEMBERED {
            allowance.spend(&tenant(&format!("t{n}")), RATE, RATE, now);
        }
        allowance.spend(&tenant("t1"), RATE, RATE, now + 2 * SECOND);
        assert_eq!(allowance.paid.lock().unwrap().len(), 2, "the first owes still");
    }
}
