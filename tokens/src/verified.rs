//! What a valid token says.

use std::num::NonZeroU32;
use std::time::SystemTime;

use thermae_capabilities::{At, Rules, Take};
use thermae_schemas::{ClientId, TenantName};

use crate::{RevocationId, TokenId};

/// What a valid token says, narrowings included.
#[derive(Debug, Clone, PartialEq)]
pub struct Verified {
    /// The token's id, which its narrowings share.
    pub id: TokenId,
    /// The tenant whose jobs may use it.
    pub tenant: TenantName,
    /// The client of this tenant to which its calls are sent. `None` if it is the client that has the run.
    pub answers: Option<ClientId>,
    /// The time from which it is not valid any more: the earliest that a block states. The verifier's skew is not
    /// added.
    pub expires: SystemTime,
    /// Which calls it allows: those that every block's set allows.
    pub rules: Rules,
    /// For each set of the rules, the block that it comes from. With the number of the capability, it is the name under
    /// which the capability's calls are counted: all tokens that share the block share the count.
    pub sets: Vec<Block>,
    /// The limits of all calls together. Each call counts against all of them.
    pub calls: Vec<CallLimit>,
    /// The blocks, the issuer's first. The last one is the name of exactly this token.
    pub blocks: Vec<RevocationId>,
}

/// A block under whose name calls are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Its name.
    pub id: RevocationId,
    /// When it was written, as it says. One that does not say so counts as written with the first.
    pub made: SystemTime,
    /// When the last token that has the block expires: no block after it can put that off. The verifier's skew is not
    /// added.
    pub expires: SystemTime,
}

/// The most calls of a token and of all that was made from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimit {
    /// The block that states it, under whose name the calls are counted.
    pub block: Block,
    /// Most calls.
    pub most: NonZeroU32,
}

impl Verified {
    /// The block and the number of the capability under which this take is counted.
    pub fn counted(&self, take: &Take) -> Option<(Block, usize)> {
        let At { set, capability } = take.at;
        self.sets.get(set).map(|block| (*block, capability))
    }
}
