//! Counts that are asked for, and kept elsewhere.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};

use thermae_capabilities::{At, Counts, InMemory, Take, Taken};

/// What an attempt knows of the counts of its token. A count never gets smaller, so a capability that has no calls left
/// never has any again.
#[derive(Default)]
pub(super) struct Spent(Mutex<HashSet<At>>);

impl Spent {
    /// Remembers a capability that has no calls left.
    pub(super) fn add(&self, at: At) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(at);
    }

    fn has(&self, at: At) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&at)
    }
}

/// Counts that say what would be taken, and take nothing.
pub(super) struct Asked<'a> {
    /// The counts of the job's own sets.
    pub(super) own: &'a InMemory,
    pub(super) spent: &'a Spent,
    /// What was asked for last.
    pub(super) takes: Mutex<Vec<Take>>,
}

impl Counts for Asked<'_> {
    type Error = Infallible;

    fn take(&self, takes: &[Take]) -> Result<Taken, Infallible> {
        let full = |take: &&Take| self.spent.has(take.at) || self.own.taken(take.at) >= take.max.get();
        if let Some(full) = takes.iter().find(full) {
            return Ok(Taken::Exhausted(full.at));
        }
        *self.takes.lock().unwrap_or_else(PoisonError::into_inner) = takes.to_vec();
        Ok(Taken::All)
    }
}
