//! Counts that jobs share: how often the calls of a token were made.

use std::time::Duration;

use thermae_schemas::TenantName;

use crate::record::Millis;

/// Most counts that are kept for one tenant at a time. Whoever has a token can make as many others from it as they
/// like, each with counts of its own.
pub const MOST_COUNTS: usize = 20_000;

/// A count that jobs of one tenant share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// Its name, unique in the tenant.
    pub name: String,
    /// It can't have been taken before this moment (milliseconds since 1970, by the clock of whoever made it). If the
    /// epoch began later, uses may be forgotten.
    pub made: Millis,
    /// Nobody asks for it after this moment, so that it can be forgotten.
    pub until: Millis,
    /// How often it can be taken.
    pub most: u32,
}

/// A request to take each of these counts once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountRequest {
    /// The tenant whose counts they are.
    pub tenant: TenantName,
    /// The counts. Their names differ.
    pub counts: Vec<Count>,
    /// How far the clocks of those who made the counts may be ahead of the clock of a registry that other machines
    /// share. A registry in one process does not heed it, and takes its own clock for theirs.
    pub skew: Duration,
}

/// What came of it. Unless it is [`Counted::All`], nothing was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Each was taken once.
    All,
    /// The count at this place of the list was taken as often as it can be.
    Exhausted(usize),
    /// Nobody knows how often the count at this place was taken: the epoch began after it was made, or its time is
    /// over.
    Lost(usize),
    /// The tenant has [`MOST_COUNTS`] counts.
    Full,
}

/// A moment for a count.
pub fn moment(time: std::time::SystemTime) -> Millis {
    let since = time.duration_since(std::time::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}
