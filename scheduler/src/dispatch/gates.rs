//! Tenants that have as many jobs handed out as they may. The fair queues leave them out until credit comes back. Then
//! they are let in one by one, each with one job to try.

use std::collections::VecDeque;

use ahash::HashMap;
use thermae_schemas::TenantName;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    /// The tenant is left out.
    Shut,
    /// The tenant's next job may try.
    Ajar,
    /// A job of the tenant is trying, and its other jobs wait.
    Trying,
}

/// The tenants that are not simply let through.
#[derive(Debug, Default)]
pub(super) struct Gates {
    gates: HashMap<TenantName, Gate>,
    /// Tenants that are left out. The first one has waited longest.
    shut: VecDeque<TenantName>,
}

impl Gates {
    /// Whether new jobs of this tenant must be blocked.
    pub(super) fn is_shut(&self, tenant: &TenantName) -> bool {
        matches!(self.gates.get(tenant), Some(Gate::Shut | Gate::Trying))
    }

    /// The registry answered that the tenant is busy.
    pub(super) fn shut(&mut self, tenant: &TenantName) {
        if self.gates.insert(tenant.clone(), Gate::Shut) != Some(Gate::Shut) {
            self.shut.push_back(tenant.clone());
        }
    }

    /// Lets the tenant try that has been left out longest.
    pub(super) fn open_one(&mut self) -> Option<TenantName> {
        let tenant = self.shut.pop_front()?;
        self.gates.insert(tenant.clone(), Gate::Ajar);
        Some(tenant)
    }

    /// A job of the tenant starts. `true` if it is the one that tries: the caller must block the tenant's other jobs.
    pub(super) fn probe(&mut self, tenant: &TenantName) -> bool {
        match self.gates.get_mut(tenant) {
            Some(gate @ Gate::Ajar) => {
                *gate = Gate::Trying;
                true
            }
            _ => false,
        }
    }

    /// A job of the tenant ended, and the tenant was not busy. `true` if that opens the gate.
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
