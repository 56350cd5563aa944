//! Places for followers. Each is held for as long as the followed job takes, so that without a bound one tenant's followers would
//! keep the copies of every tenant's jobs from being decided.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use thermae_schemas::TenantName;

/// Followers of one tenant that are held at once.
pub(super) const OF_A_TENANT: usize = 64;
/// Followers of all tenants; the rest of what is held at once is for copies.
const OF_ALL: usize = 512;

/// Places for followers.
#[derive(Clone, Default)]
pub(super) struct Places(Arc<Mutex<HashMap<TenantName, usize>>>);

/// A place; free again when it is dropped.
pub(super) struct Place {
    places: Places,
    tenant: TenantName,
}

impl Places {
    /// A place for one more of this tenant's followers, if one is left.
    pub(super) fn take(&self, tenant: &TenantName) -> Option<Place> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = held.values().sum();
        let mine = held.get(tenant).copied().unwrap_or(0);
        if mine >= OF_A_TENANT || all >= OF_ALL {
            return None;
        }
        held.insert(tenant.clone(), mine + 1);
        Some(Place { places: self.clone(), tenant: tenant.clone() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
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
        let (places, acme, globex) =
            (Places::default(), TenantName::new("acme").unwrap(), TenantName::new("globex").unwrap());
        let mut held: Vec<_> = (0..OF_A_TENANT).map(|_| places.take(&acme).unwrap()).collect();
        assert!(places.take(&acme).is_none());
        assert!(places.take(&globex).is_some(), "another tenant has its own");
        held.pop();
        assert!(places.take(&acme).is_some(), "a place is free again");
    }

    #[test]
    fn all_tenants_together_leave_room_for_copies() {
        let places = Places::default();
        let held: Vec<_> =
            (0..2 * OF_ALL).filter_map(|n| places.take(&TenantName::new(format!("t{}", n % 100)).unwrap())).collect();
        assert_eq!(held.len(), OF_ALL);
    }
}
