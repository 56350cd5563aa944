//! How many runs may be under way: in all, of one tenant, and for one API key.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thermae_schemas::TenantName;

use crate::identity::Caller;
use crate::problem::Problem;
use crate::{Metrics, Options};

/// The places for runs under way. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Places(Arc<Inner>);

struct Inner {
    most: usize,
    most_of_tenant: usize,
    metrics: Metrics,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    tenants: HashMap<TenantName, usize>,
    keys: HashMap<Arc<str>, usize>,
}

/// A place that is taken, until this is dropped.
pub(crate) struct Place {
    places: Places,
    tenant: TenantName,
    key: Option<Arc<str>>,
}

impl Places {
    pub(crate) fn new(options: &Options, metrics: Metrics) -> Self {
        let (most, most_of_tenant) = (options.runs, options.share(options.runs));
        Self(Arc::new(Inner { most, most_of_tenant, metrics, taken: Mutex::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a run of this caller.
    pub(super) fn take(&self, caller: &Caller) -> Result<Place, Problem> {
        let (tenant, key) = (caller.tenant.clone(), caller.key.clone());
        let mut taken = self.lock();
        let of_tenant = taken.tenants.get(&tenant).copied().unwrap_or(0);
        let of_key = key.as_ref().and_then(|key| taken.keys.get(key)).copied().unwrap_or(0);
        let most_of_key = caller.runs_at_once.map_or(usize::MAX, |most| most.get() as usize);
        let full = if taken.all >= self.0.most {
            Some(format!("{} runs are under way already", self.0.most))
        } else if of_tenant >= self.0.most_of_tenant {
            Some(format!("{} runs of the tenant are under way already", self.0.most_of_tenant))
        } else if of_key >= most_of_key {
            Some(format!("{most_of_key} runs of the API key are under way already"))
        } else {
            None
        };
        if let Some(detail) = full {
            self.0.metrics.refused.with_label_values(&["runs"]).inc();
            return Err(Problem::new("too_many_runs", detail));
        }
        taken.all += 1;
        taken.tenants.insert(tenant.clone(), of_tenant + 1);
        if let Some(key) = &key {
            taken.keys.insert(key.clone(), of_key + 1);
        }
        Ok(Place { places: self.clone(), tenant, key })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        taken.all -= 1;
        leave(&mut taken.tenants, &self.tenant);
        if let Some(key) = &self.key {
            leave(&mut taken.keys, key);
        }
    }
}

/// Counts one less. What has none left is forgotten.
fn leave<K: Eq + Hash>(counts: &mut HashMap<K, usize>, of: &K) {
    if let Some(count) = counts.get_mut(of) {
        *count -= 1;
        if *count == 0 {
            counts.remove(of);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use thermae_schemas::Scopes;

    use super::*;

    fn caller(tenant: &str, key: &str, most: u32) -> Caller {
        let (tenant, key) = (TenantName::new(tenant).unwrap(), Some(key.into()));
        let runs_at_once = NonZeroU32::new(most);
        Caller { tenant, scopes: Scopes::all(), key, runs_at_once, operator: false }
    }

    #[test]
    fn a_key_a_tenant_and_the_gateway_have_bounds_of_their_own() {
        let metrics = Metrics::new(&prometheus::Registry::new()).unwrap();
        let places = Places::new(&Options { runs: 6, tenant_share: 67, ..Options::default() }, metrics);
        let take = |tenant: &str, key: &str, most| places.take(&caller(tenant, key, most)).map_err(|no| no.detail);
        let one = take("acme", "a", 1).unwrap();
        assert!(take("acme", "a", 1).err().unwrap().contains("API key"));
        // The bound of another key of the tenant, and then that of the tenant.
        let rest: Vec<_> = (0..3).map(|_| take("acme", "b", 0).unwrap()).collect();
        assert!(take("acme", "b", 0).err().unwrap().contains("of the tenant"));
        let others: Vec<_> = (0..2).map(|_| take("globex", "c", 0).unwrap()).collect();
        assert!(take("initech", "d", 0).err().unwrap().starts_with("6 runs are under way"));
        drop(one);
        let one = take("acme", "a", 1).unwrap();
        drop((one, rest, others));
        let taken = places.lock();
        assert_eq!((taken.all, taken.tenants.len(), taken.keys.len()), (0, 0, 0));
    }
}
