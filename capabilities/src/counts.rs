//! How often each capability took a call.

use std::collections::HashMap;
use std::convert::Infallible;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};

use crate::At;

/// One call that a capability with `max_calls` shall take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Take {
    /// The capability.
    pub at: At,
    /// Its `max_calls`.
    pub max: NonZeroU32,
}

/// What came of an attempt to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// Each capability took one call.
    All,
    /// The capability at this place has taken all its calls before, so none took one now.
    Exhausted(At),
}

/// Keeps the counts of rules: in memory for one job, or elsewhere for many.
pub trait Counts {
    /// Why the counts can't be reached.
    type Error;

    /// Has each of these capabilities take one call, in one step: all of them or none. Nobody sees a state between.
    ///
    /// # Errors
    /// The counts can't be reached. The call must then be refused.
    fn take(&self, takes: &[Take]) -> Result<Taken, Self::Error>;
}

/// Counts in memory. They end with the value.
#[derive(Debug, Default)]
pub struct InMemory {
    taken: Mutex<HashMap<At, u32>>,
}

impl InMemory {
    /// How many calls the capability at this place took.
    pub fn taken(&self, at: At) -> u32 {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).get(&at).copied().unwrap_or(0)
    }
}

impl Counts for InMemory {
    type Error = Infallible;

    fn take(&self, takes: &[Take]) -> Result<Taken, Infallible> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let used = |at: &At| taken.get(at).copied().unwrap_or(0);
        if let Some(full) = takes.iter().find(|take| used(&take.at) >= take.max.get()) {
            return Ok(Taken::Exhausted(full.at));
        }
        for take in takes {
            *taken.entry(take.at).or_default() += 1;
        }
        Ok(Taken::All)
    }
}
