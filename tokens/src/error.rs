//! Why a token is refused, or can't be written.

use std::fmt;

use thermae_capabilities as capabilities;
use thermae_schemas::{ErrorCode, NameError};

use crate::{BadTokenId, LARGEST_TOKEN, MOST_BLOCKS};

/// A token that gives no rights. Every variant has a stable code.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The text is too long.
    #[error("the token has {0} bytes, and at most {LARGEST_TOKEN} are allowed")]
    TooLarge(usize),
    /// It was narrowed too often.
    #[error("the token has {0} blocks, and at most {MOST_BLOCKS} are allowed")]
    TooManyBlocks(usize),
    /// It is no token, or one that says what a token can't say.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// No public key has the id that the token names. `None` if it names none.
    #[error("no public key has the id that the token names ({})", id(.0))]
    UnknownKey(Option<u32>),
    /// A block was not signed by the key that must have signed it.
    #[error("a signature of the token is wrong")]
    BadSignature,
    /// The token, or one that it was narrowed from, is revoked.
    #[error("the token is revoked")]
    Revoked,
    /// The token belongs to another tenant. The text does not say which.
    #[error("the token belongs to another tenant")]
    ForeignTenant,
    /// The time from which it is valid has not come.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// The time until which it was valid is over.
    #[error("the token has expired")]
    Expired,
}

fn id(id: &Option<u32>) -> String {
    id.map_or_else(|| "none".to_owned(), |id| id.to_string())
}

impl Refused {
    /// Every code, in the order in which a token is checked.
    pub const CODES: [ErrorCode; 9] = [
        ErrorCode::TokenTooLarge,
        ErrorCode::TokenTooManyBlocks,
        ErrorCode::TokenMalformed,
        ErrorCode::TokenUnknownKey,
        ErrorCode::TokenBadSignature,
        ErrorCode::TokenRevoked,
        ErrorCode::TokenForeignTenant,
        ErrorCode::TokenNotYetValid,
        ErrorCode::TokenExpired,
    ];

    /// The stable code, for programs.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::TooLarge(_) => ErrorCode::TokenTooLarge,
            Self::TooManyBlocks(_) => ErrorCode::TokenTooManyBlocks,
            Self::Malformed(_) => ErrorCode::TokenMalformed,
            Self::UnknownKey(_) => ErrorCode::TokenUnknownKey,
            Self::BadSignature => ErrorCode::TokenBadSignature,
            Self::Revoked => ErrorCode::TokenRevoked,
            Self::ForeignTenant => ErrorCode::TokenForeignTenant,
            Self::NotYetValid => ErrorCode::TokenNotYetValid,
            Self::Expired => ErrorCode::TokenExpired,
        }
    }
}

/// A text that is no token, or says what a token can't say.
#[derive(Debug, thiserror::Error)]
pub struct Malformed {
    /// Number of the block, from 0, the issuer's. `None` if it is about the token as a whole.
    pub block: Option<usize>,
    /// What is wrong.
    #[source]
    pub flaw: Flaw,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.block {
            Some(block) => write!(f, "block {block} of the token {}", self.flaw),
            None => write!(f, "the token {}", self.flaw),
        }
    }
}

impl From<Flaw> for Malformed {
    fn from(flaw: Flaw) -> Self {
        Self { block: None, flaw }
    }
}

/// What is wrong in a token. The text goes on from the token or the block.
#[derive(Debug, thiserror::Error)]
pub enum Flaw {
    /// The text is not base64 for URLs, with padding.
    #[error("is not base64")]
    Base64,
    /// The bytes are no Biscuit, or no block of one.
    #[error("can't be decoded: {0}")]
    Encoding(String),
    /// The bytes are not those that a writer writes: a field is unknown, stands twice or in another order.
    #[error("has bytes that its content does not explain")]
    Excess,
    /// A key is not an Ed25519 key.
    #[error("has a key that is not Ed25519")]
    Algorithm,
    /// A key is one for which anyone could sign.
    #[error("has a key for which anyone could sign")]
    WeakKey,
    /// A third party has signed the block.
    #[error("comes from a third party")]
    ThirdParty,
    /// The version of Biscuit's blocks is not 3, the only one in which such blocks are written.
    #[error("has the block version {0}, and must have 3")]
    BlockVersion(u32),
    /// It has more than facts.
    #[error("has {0}, and may have only facts")]
    NotFacts(&'static str),
    /// It refers to a symbol that is not there, or defines one that is there.
    #[error("has wrong symbols")]
    Symbols,
    /// It states something of which this release knows nothing.
    #[error("states {0:?}, which is unknown")]
    Unknown(String),
    /// It states what only the issuer can state.
    #[error("states {0}, which only the issuer can state")]
    Issuers(&'static str),
    /// It states the same thing twice.
    #[error("states {0} twice")]
    Twice(&'static str),
    /// It lacks what must be there.
    #[error("does not state {0}")]
    Missing(&'static str),
    /// A fact does not have exactly one value of its type.
    #[error("states {0} in a wrong form")]
    Form(&'static str),
    /// The form of the statements is of another version.
    #[error("has the form {0}, and this release reads the form 1")]
    FormVersion(i64),
    /// A name breaks the rule of its kind.
    #[error("has a bad name: {0}")]
    Name(#[from] NameError),
    /// The id breaks its rule.
    #[error("has a bad id: {0}")]
    Id(#[from] BadTokenId),
    /// The set is none.
    #[error("has a bad set: {0}")]
    Set(#[from] capabilities::Malformed),
}

/// A token can't be written.
#[derive(Debug, thiserror::Error)]
pub enum Unwritten {
    /// The token to be narrowed is no token.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The new token would be too long, or the one to be narrowed is.
    #[error("the token would have {0} bytes, and at most {LARGEST_TOKEN} are allowed")]
    TooLarge(usize),
    /// The token was narrowed as often as a token can be.
    #[error("the token would have {0} blocks, and at most {MOST_BLOCKS} are allowed")]
    TooManyBlocks(usize),
    /// The narrowing takes nothing away.
    #[error("the narrowing is empty")]
    Nothing,
    /// The narrowed token would expire later than the token, or not earlier than it becomes valid.
    #[error("the token expires before that time")]
    LaterExpiry,
    /// The token would expire before it becomes valid.
    #[error("the token would expire before it becomes valid")]
    NeverValid,
    /// The time is before 1970 or after the year 9999.
    #[error("the time can't be written")]
    Time,
    /// The token is sealed: nobody can narrow it.
    #[error("the token is sealed")]
    Sealed,
    /// The system has no random numbers for the token's keys.
    #[error("the system has no random numbers")]
    Random,
}
