//! The counts of the in-process registry.

use ahash::HashMap;
use thermae_schemas::TenantName;

use crate::record::Millis;
use crate::registry::{CountRequest, Counted, MOST_COUNTS};

/// The counts of each tenant: how often each was taken, and until when it is kept.
#[derive(Default)]
pub(super) struct Counts(HashMap<TenantName, HashMap<String, (u32, Millis)>>);

impl Counts {
    /// Takes each of the counts once, or none. Other processes may have counted before `began`.
    pub(super) fn take(&mut self, request: &CountRequest, began: Millis, now: Millis) -> Counted {
        self.0.retain(|_, counts| {
            counts.retain(|_, (_, until)| *until > now);
            !counts.is_empty()
        });
        let kept = self.0.entry(request.tenant.clone()).or_default();
        let mut new = 0;
        for (place, count) in request.counts.iter().enumerate() {
            if count.made <= began || count.until <= now {
                return Counted::Lost(place);
            }
            match kept.get(&count.name) {
                Some((taken, _)) if *taken >= count.most => return Counted::Exhausted(place),
                Some(_) => {}
                None => new += 1,
            }
        }
        if new > 0 && kept.len() + new > MOST_COUNTS {
            return Counted::Full;
        }
        for count in &request.counts {
            let (taken, until) = kept.entry(count.name.clone()).or_default();
            *taken += 1;
            *until = count.until.max(*until);
        }
        Counted::All
    }
}
