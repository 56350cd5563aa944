//! The counts of the in-process registry.

use crate::record::Millis;
use crate::registry::{CountRequest, Counted, MOST_COUNTS};
use ahash::HashMap;

use super::memory::Memory;

/// The counts of one tenant: how often each was taken, and until when it is kept.
pub(super) type Counts = HashMap<String, (u32, Millis)>;

impl Memory {
    /// Takes each of the counts once, or none. `made` is when the registry was made: other processes may have counted
    /// before, also if nothing else can have been lost.
    pub(super) fn count(&mut self, request: &CountRequest, made: Millis, now: Millis) -> Counted {
        let began = self.began.max(made);
        self.counts.retain(|_, counts| {
            counts.retain(|_, (_, until)| *until > now);
            !counts.is_empty()
        });
        let kept = self.counts.entry(request.tenant.clone()).or_default();
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
