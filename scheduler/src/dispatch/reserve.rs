//! The reserve: slots of a pool that each of its tenants leaves to the others.
//!
//! Fair queueing decides whose job is handed out next, but it can't take back a job that was handed out. A tenant whose
//! jobs run for minutes would soon hold all slots. So a tenant may have all slots of a pool only while no other tenant
//! uses it.

use std::time::Duration;

use ahash::HashMap;
use thermae_schemas::TenantName;
use tokio::time::Instant;

/// How long a tenant counts as a user of a pool after its last job came.
const LATELY: Duration = Duration::from_secs(5 * 60);

/// The tenants that use a pool.
#[derive(Debug, Default)]
pub(super) struct Reserve {
    slots: u32,
    /// When the last job of each tenant came.
    tenants: HashMap<TenantName, Instant>,
}

impl Reserve {
    /// Notes that a job of this tenant came.
    pub(super) fn used_by(&mut self, tenant: &TenantName, now: Instant) {
        match self.tenants.get_mut(tenant) {
            Some(last) => *last = now,
            None => drop(self.tenants.insert(tenant.clone(), now)),
        }
    }

    /// Sets how many slots the pool has now, and forgets the tenants that no longer use it.
    pub(super) fn see(&mut self, slots: u32, now: Instant) {
        self.slots = slots;
        self.tenants.retain(|_, last| now.duration_since(*last) < LATELY);
    }

    /// How many jobs of a tenant may be handed out at once, if each tenant leaves `part` of the slots, and at least
    /// one, to the others. `None` while the tenant is alone, or if there is nothing to leave. `heaviest` is the largest
    /// weight of a tenant with waiting jobs: a tenant with a smaller weight gets a proportionally smaller share.
    pub(super) fn share(&self, tenant: &TenantName, weight: u32, heaviest: u32, part: f64) -> Option<u32> {
        let others = self.tenants.len() - usize::from(self.tenants.contains_key(tenant));
        if others == 0 || part == 0.0 || self.slots < 2 {
            return None;
        }
        let left = ((f64::from(self.slots) * part).floor() as u32).clamp(1, self.slots - 1);
        let most = self.slots - left;
        let part_of_heaviest = u64::from(most) * u64::from(weight) / u64::from(heaviest.max(weight).max(1));
        Some((part_of_heaviest as u32).clamp(left.min(most), most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantName {
        TenantName::new(name).unwrap()
    }

    #[test]
    fn a_tenant_has_all_slots_only_while_it_is_alone() {
        let mut reserve = Reserve::default();
        let (a, b, now) = (tenant("a"), tenant("b"), Instant::now());
        let share = |reserve: &Reserve, tenant: &TenantName| reserve.share(tenant, 1, 1, 0.125);
        reserve.see(16, now);
        reserve.used_by(&a, now);
        assert_eq!(share(&reserve, &a), None);
        assert_eq!(share(&reserve, &b), Some(14), "somebody else was here first");
        reserve.used_by(&b, now + LATELY / 2);
        assert_eq!((share(&reserve, &a), share(&reserve, &b)), (Some(14), Some(14)));
        assert_eq!(reserve.share(&a, 1, 1, 0.0), None);
        reserve.see(16, now + LATELY);
        assert_eq!((share(&reserve, &a), share(&reserve, &b)), (Some(14), None));
    }

    #[test]
    fn one_slot_is_left_and_one_is_had() {
        let (mut reserve, now) = (Reserve::default(), Instant::now());
        reserve.used_by(&tenant("b"), now);
        for (slots, share) in [(0, None), (1, None), (2, Some(1)), (4, Some(3)), (8, Some(7)), (100, Some(88))] {
            reserve.see(slots, now);
            assert_eq!(reserve.share(&tenant("a"), 1, 1, 0.125), share, "of {slots}");
        }
        assert_eq!(reserve.share(&tenant("a"), 1, 1, 1.0), Some(1), "all that can be left");
    }

    #[test]
    fn weights_hold() {
        let (mut reserve, now) = (Reserve::default(), Instant::now());
        reserve.used_by(&tenant("b"), now);
        reserve.see(4, now);
        let share = |weight, heaviest| reserve.share(&tenant("a"), weight, heaviest, 0.125);
        assert_eq!((share(3, 1), share(1, 3)), (Some(3), Some(1)));
        assert_eq!(share(1, 100), Some(1));
        reserve.see(16, now);
        let share = |weight, heaviest| reserve.share(&tenant("a"), weight, heaviest, 0.125);
        assert_eq!((share(2, 2), share(1, 2), share(1, 100)), (Some(14), Some(7), Some(2)), "together all slots");
    }
}
