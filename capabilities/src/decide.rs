//! Decides calls.

use std::time::Duration;

use crate::{Arguments, At, Counts, Refusal, Rules, Schemas, Search, Taken};

/// A call of a tool.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// Name of the tool, as the job declares it.
    pub tool: &'a str,
    /// The arguments. The tool must get [`Arguments::text`].
    pub arguments: &'a Arguments,
}

/// Leave to make a call. The call is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The capabilities that took the call: one of each set.
    pub by: Vec<At>,
    /// How long the call may wait for its answer: the shortest time-out of these capabilities.
    pub timeout: Option<Duration>,
    /// Most bytes of the result, as JSON: the smallest limit of these capabilities.
    pub max_result_bytes: Option<u64>,
}

/// Why a call must not be made. Nothing was counted.
#[derive(Debug, thiserror::Error)]
pub enum Denied<E> {
    /// The rules do not allow it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The counts can't be reached.
    #[error("the counts of the capabilities can't be reached: {0}")]
    Counts(#[source] E),
}

/// Decides a call, and counts it if it is allowed. In each set, the first capability takes the call whose pattern,
/// constraints, size and schema allow it and which has calls left.
///
/// # Errors
/// A set has no such capability, or the counts can't be reached.
pub fn decide<C: Counts>(
    rules: &Rules,
    call: Call<'_>,
    schemas: &impl Schemas,
    counts: &C,
) -> Result<Grant, Denied<C::Error>> {
    let mut search = Search::new(rules, call, schemas)?;
    loop {
        match counts.take(&search.takes()).map_err(Denied::Counts)? {
            Taken::All => return Ok(search.grant()),
            Taken::Exhausted(At { set, .. }) => search.exhausted(set)?,
        }
    }
}
