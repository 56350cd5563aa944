//! The counts of a token, which all jobs that use it share.

use std::num::NonZeroU32;
use std::time::Duration;

use thermae_backplane::registry::{self, Count, CountRequest};
use thermae_capabilities::{At, Take};
use thermae_schemas::ErrorCode;
use thermae_tokens::Block;

use super::Held;
use crate::tools::Refused;

/// How much longer than the last token that has its block says a count is kept. It is more than twice the longest skew:
/// a worker's clock may be behind the registry's by one, and a token is valid for one more.
const MARGIN: Duration = Duration::from_secs(3600);

/// How long the registry may take to count a call.
const WITHIN: Duration = Duration::from_secs(5);

/// What came of a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tools) enum Counted {
    /// Everything was counted once.
    All,
    /// The capability at this place has no calls left. Nothing was counted.
    Exhausted(At),
}

/// What a count is for.
#[derive(Debug, Clone, Copy)]
enum Of {
    Capability(At),
    All(NonZeroU32),
}

/// See [`Held::count`].
pub(super) async fn count(held: &Held, first: usize, takes: &[Take]) -> Result<Counted, Refused> {
    let mut of = Vec::new();
    let mut counts = Vec::new();
    for take in takes.iter().filter(|take| take.at.set >= first) {
        let its = Take { at: At { set: take.at.set - first, ..take.at }, ..*take };
        let Some((block, capability)) = held.says.counted(&its) else {
            return Err(Refused::new(ErrorCode::Internal, "a capability of the token has no block"));
        };
        of.push(Of::Capability(take.at));
        counts.push(one(&block, &capability.to_string(), take.max));
    }
    for limit in &held.says.calls {
        of.push(Of::All(limit.most));
        counts.push(one(&limit.block, "calls", limit.most));
    }
    if counts.is_empty() {
        return Ok(Counted::All);
    }
    let request = CountRequest { tenant: held.tenant.clone(), counts, skew: held.trust.skew() };
    let away =
        |why: String| Refused::new(ErrorCode::TokenCountsUnavailable, format!("the call was not counted: {why}"));
    let answer = tokio::time::timeout(WITHIN, held.registry.count(&request)).await;
    match answer.map_err(|_| away(format!("no answer within {} s", WITHIN.as_secs())))? {
        Err(error) => Err(away(error.to_string())),
        Ok(registry::Counted::All) => Ok(Counted::All),
        Ok(registry::Counted::Full) => Err(away("the tenant has too many counts".to_owned())),
        Ok(registry::Counted::Lost(_)) => {
            let why = "how often the token was used is not known, because the counts began after it was made";
            Err(Refused::new(ErrorCode::TokenCountsLost, why))
        }
        Ok(registry::Counted::Exhausted(place)) => match of.get(place) {
            Some(Of::Capability(at)) => Ok(Counted::Exhausted(*at)),
            Some(Of::All(most)) => {
                let why = format!("all calls of the token are used: {most}");
                Err(Refused::new(ErrorCode::CapabilityRefused, why))
            }
            None => Err(Refused::new(ErrorCode::Internal, "a count was used up that was not asked for")),
        },
    }
}

/// A count under the name of a block.
fn one(block: &Block, what: &str, most: NonZeroU32) -> Count {
    Count {
        name: format!("{}/{what}", block.id),
        made: registry::moment(block.made),
        until: registry::moment(block.expires.checked_add(MARGIN).unwrap_or(block.expires)),
        most: most.get(),
    }
}
