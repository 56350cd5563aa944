//! Reads tokens.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use thermae_capabilities::Rules;
use thermae_schemas::TenantName;

use crate::envelope::{self, Envelope};
use crate::statement::Statement;
use crate::{
    Block, CallLimit, Flaw, Malformed, PublicKeys, Refused, RevocationId, RevocationList, Verified, chain, time,
};

/// How far a verifier's clock and an issuer's may differ, if nothing else is set. A token is valid so much longer, and
/// so much earlier, than it says.
pub const SKEW: Duration = Duration::from_secs(30);

/// The largest skew that can be set.
pub const LONGEST_SKEW: Duration = Duration::from_secs(300);

/// Verifies tokens. It does not change: for new keys or a new list of revocations, make another one.
#[derive(Debug, Clone)]
pub struct Verifier {
    keys: PublicKeys,
    revoked: RevocationList,
    skew: Duration,
}

impl Verifier {
    /// Trusts the issuers with these keys, except for what is revoked.
    pub fn new(keys: PublicKeys, revoked: RevocationList) -> Self {
        Self { keys, revoked, skew: SKEW }
    }

    /// The same with another skew. More than [`LONGEST_SKEW`] is as much as that.
    #[must_use]
    pub fn with_skew(self, skew: Duration) -> Self {
        Self { skew: skew.min(LONGEST_SKEW), ..self }
    }

    /// Verifies a token that someone who acts for `tenant` uses at the time `now`.
    ///
    /// # Errors
    /// The token gives no rights. The reasons are checked in the order of [`Refused::CODES`], so whoever has no signed
    /// token learns nothing of revocations, tenants and times.
    pub fn verify(&self, token: &str, tenant: &TenantName, now: SystemTime) -> Result<Verified, Refused> {
        let envelope = Envelope::decode(token)?;
        // What the token says is read before its signatures are checked, so that a malformed token is called malformed
        // whoever has signed it.
        let (statements, _) = envelope::statements(&envelope.token)?;
        let verified = conjunction(statements, envelope.ids()?)?;
        let key = envelope.key().and_then(|id| self.keys.get(id)).ok_or(Refused::UnknownKey(envelope.key()))?;
        chain::verify(&envelope, key)?;
        if self.is_revoked(&verified.token.blocks) {
            return Err(Refused::Revoked);
        }
        if verified.token.tenant != *tenant {
            return Err(Refused::ForeignTenant);
        }
        let later = now.checked_add(self.skew).unwrap_or(now);
        // Nobody can have used a block before it was made. So its counts are known if they were kept since then.
        if verified.not_before.is_some_and(|begin| later < begin) || later < verified.made {
            return Err(Refused::NotYetValid);
        }
        if verified.token.expires.checked_add(self.skew).is_none_or(|end| end <= now) {
            return Err(Refused::Expired);
        }
        Ok(verified.token)
    }

    /// Whether the list of revocations has one of these blocks.
    pub fn is_revoked(&self, blocks: &[RevocationId]) -> bool {
        blocks.iter().any(|id| self.revoked.has(id))
    }

    /// The skew.
    pub fn skew(&self) -> Duration {
        self.skew
    }
}

/// What the blocks say together.
struct Conjunction {
    token: Verified,
    not_before: Option<SystemTime>,
    /// When the last of the blocks was made.
    made: SystemTime,
}

fn conjunction(statements: Vec<Statement>, blocks: Vec<RevocationId>) -> Result<Conjunction, Malformed> {
    // `Envelope::statements` gives a grant first.
    let missing = || Malformed { block: Some(0), flaw: Flaw::Missing("token") };
    let named = named(&statements, &blocks).ok_or_else(missing)?;
    let expires = named.last().ok_or_else(missing)?.expires;
    let made = named.iter().map(|block| block.made).max().ok_or_else(missing)?;
    let stated =
        |(statement, block): (&Statement, &Block)| statement.calls.map(|most| CallLimit { block: *block, most });
    let calls = statements.iter().zip(&named).filter_map(stated).collect();
    let mut statements = statements.into_iter();
    let first = statements.next().ok_or_else(missing)?;
    let Statement { id: Some(id), tenant: Some(tenant), answers, set: Some(set), not_before, .. } = first else {
        return Err(missing());
    };
    let mut rules = Rules::new(set);
    let mut sets: Vec<_> = named.first().copied().into_iter().collect();
    for (narrowing, block) in statements.zip(named.iter().skip(1)) {
        if let Some(set) = narrowing.set {
            // There are at most as many blocks as rules can have sets.
            rules = rules.narrow(set).map_err(|error| Malformed::from(Flaw::Encoding(error.to_string())))?;
            sets.push(*block);
        }
    }
    let token = Verified { id, tenant, answers, expires, rules, sets, calls, blocks };
    Ok(Conjunction { token, not_before: not_before.and_then(time::read), made })
}

/// The blocks with their times. `None` if the first lacks one.
fn named(statements: &[Statement], ids: &[RevocationId]) -> Option<Vec<Block>> {
    let first = statements.first()?;
    let (made, mut expires) = (first.made?, first.expires?);
    let blocks = statements.iter().zip(ids).map(|(statement, id)| {
        expires = statement.expires.map_or(expires, |own| own.min(expires));
        let made = UNIX_EPOCH + Duration::from_millis(statement.made.unwrap_or(made));
        Some(Block { id: *id, made, expires: time::read(expires)? })
    });
    blocks.collect()
}
