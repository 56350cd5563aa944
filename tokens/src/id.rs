//! Ids of tokens.

use std::fmt;
use std::str::FromStr;

/// The id of a token, which its narrowings keep. It is for people and logs: a token is revoked and counted by its
/// [`RevocationId`](crate::RevocationId), which nobody can choose.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenId(String);

/// A text that is no id of a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no token id: it has 1 to 64 characters, each a letter, a digit, '-' or '_'")]
pub struct BadTokenId(String);

impl TokenId {
    /// Checks the rule and makes the id.
    ///
    /// # Errors
    /// The text does not have 1 to 64 characters, or has one that is not a letter, a digit, `-` or `_`.
    pub fn new(text: impl Into<String>) -> Result<Self, BadTokenId> {
        let text = text.into();
        let fits = (1..=64).contains(&text.len());
        if fits && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
            Ok(Self(text))
        } else {
            Err(BadTokenId(text.chars().take(65).collect()))
        }
    }

    /// A new id. Ids are ordered by time (UUID version 7).
    pub fn random() -> Self {
        Self(uuid::Uuid::now_v7().to_string())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for TokenId {
    type Err = BadTokenId;

    fn from_str(text: &str) -> Result<Self, BadTokenId> {
        Self::new(text)
    }
}
