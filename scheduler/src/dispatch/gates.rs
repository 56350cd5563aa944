//! Tenants that have as much handed out as they may. They are left out of the fair queues until credit comes back, and then let in
//! one by one, each with one job to try.

use std::collections::{HashMap, VecDeque};

use thermae_schemas::TenantName;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    /// Left out.
    Shut,
    /// Its next job tries.
    Ajar,
    /// A job of it is trying.
    Trying,
}

/// The tenants that are not simply let through.
#[derive(Debug, Default)]
pub(super) struct Gates {
    gates: HashMap<TenantName, Gate>,
    /// Those shut, the longest first.
    shut: VecDeque<TenantName>,
}

impl Gates {
    /// Whether new jobs of it are to be blocked.
    pub(super) fn is_shut(&self, tenant: &TenantName) -> bool {
        matches!(self.gates.get(tenant), Some(Gate::Shut | Gate::Trying))
    }

    /// The registry said that it is busy.
    pub(super) fn shut(&mut self, tenant: &TenantName) {
        if self.gates.insert(tenant.clone(), Gate::Shut) != Some(Gate::Shut) {
            self.shut.push_back(tenant.clone());
        }
    }

    /// Lets the tenant try that was shut out for the longest.
    pub(super) fn open_one(&mut self) -> Option<TenantName> {
        let tenant = self.shut.pop_front()?;
        self.gates.insert(tenant.clone(), Gate::Ajar);
        Some(tenant)
    }

    /// A job of it starts; `true` when it is the one that tries, so that the tenant is to be blocked behind it.
    pub(super) fn probe(&mut self, tenant: &TenantName) -> bool {
        match self.gates.get_mut(tenant) {
            Some(gate @ Gate::Ajar) => {
                *gate = Gate::Trying;
                true
            }
            _ => false,
        }
    }

    /// A job of it ended otherwise than busy; `true` when that opens the gate.
    pub(super) fn passed(&mut self, tenant: &TenantName) -> bool {
        let tried = self.gates.get(tenant) == Some(&Gate::Trying);
        if tried {
            self.gates.remove(tenant);
        }
        tried
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_tenant_tries_with_one_job_at_a_time() {
        let (a, b) = (TenantName::new("a").unwrap(), TenantName::new("b").unwrap());
        let mut gates = Gates::default();
        gates.shut(&a);
        gates.shut(&b);
        gates.shut(&a);
        assert!(gates.is_shut(&a));
        assert_eq!(gates.open_one(), Some(a.clone()));
        assert!(!gates.is_shut(&a) && gates.is_shut(&b));
        assert!(gates.probe(&a), "its first job tries");
        assert!(gates.is_shut(&a) && !gates.probe(&a), "the others wait for it");
        assert!(gates.passed(&a));
        assert!(!gates.is_shut(&a) && !gates.passed(&a));
        assert_eq!((gates.open_one(), gates.open_one()), (Some(b), None));
    }
}
