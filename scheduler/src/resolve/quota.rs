//! Limits how many followers are held at once. Each is held until the job that it follows has ended. Without a limit,
//! the followers of one tenant could keep the scheduler from deciding about the copies of all other jobs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use thermae_schemas::TenantName;

/// Most followers of one tenant that are held at once.
pub(super) const OF_A_TENANT: usize = 64;
/// Most followers of all tenants. The rest of the prefetch is for copies.
const OF_ALL: usize = 512;

/// Counts the followers that are held, by tenant.
#[derive(Clone, Default)]
pub(super) struct FollowerQuota(Arc<Mutex<HashMap<TenantName, usize>>>);

/// The permission to hold one follower. Dropping it gives it back.
pub(super) struct FollowerPermit {
    quota: FollowerQuota,
    tenant: TenantName,
}

impl FollowerQuota {
    /// Permits one more follower of this tenant. `None` if the tenant, or all tenants together, have reached the limit.
    pub(super) fn take(&self, tenant: &TenantName) -> Option<FollowerPermit> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = held.values().sum();
        let mine = held.get(tenant).copied().unwrap_or(0);
        if mine >= OF_A_TENANT || all >= OF_ALL {
            return None;
        }
        held.insert(tenant.clone(), mine + 1);
        Some(FollowerPermit { quota: self.clone(), tenant: tenant.clone() })
    }
}

impl Drop for FollowerPermit {
    fn drop(&mut self) {
        let mut held = self.quota.0.lock().unwrap_or_else(PoisonError::into_inner);
        match held.get_mut(&self.tenant) {
            Some(mine) if *mine > 1 => *mine -= 1,
            _ => drop(held.remove(&self.tenant)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_no_more_than_its_places() {
        let (quota, acme, globex) =
            (FollowerQuota::default(), TenantName::new("acme").unwrap(), TenantName::new("globex").unwrap());
        let mut held: Vec<_> = (0..OF_A_TENANT).map(|_| quota.take(&acme).unwrap()).collect();
        assert!(quota.take(&acme).is_none());
        assert!(quota.take(&globex).is_some(), "another tenant has its own");
        held.pop();
        assert!(quota.take(&acme).is_some(), "a permit is free again");
    }

    #[test]
    fn all_tenants_together_leave_room_for_copies() {
        let quota = FollowerQuota::default();
        let held: Vec<_> =
            (0..2 * OF_ALL).filter_map(|n| quota.take(&TenantName::new(format!("t{}", n % 100)).unwrap())).collect();
        assert_eq!(held.len(), OF_ALL);
    }
}
