//! Options for capability tokens.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thermae_service::units::Millis;
use thermae_tokens::{LONGEST_SKEW, SKEW, Trust};

/// Which capability tokens the worker takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TokenOptions {
    /// Folder with the issuers' public keys, each in a file that is named after the key's id, such as `1.pem`. The
    /// files are read again when they change. Without this option, jobs with a token are rejected
    /// (`token_unsupported`).
    pub keys: Option<PathBuf>,
    /// File with the revoked tokens, one revocation id in each line. It is read again when it changes. While it can't
    /// be read, no token is valid (`token_unverifiable`).
    pub revoked: Option<PathBuf>,
    /// How far the clocks of issuers, workers and Redis may differ, at most 5 minutes. A token is valid by so much
    /// longer, and earlier, than it says.
    pub skew: Millis,
}

impl Default for TokenOptions {
    fn default() -> Self {
        Self { keys: None, revoked: None, skew: Millis(SKEW) }
    }
}

impl TokenOptions {
    pub(super) fn validate(&self) -> Result<(), (&'static str, &'static str)> {
        match () {
            () if self.revoked.is_some() && self.keys.is_none() => Err(("revoked", "is of no use without keys")),
            () if self.skew.0 > LONGEST_SKEW => Err(("skew", "must be at most 5 minutes")),
            () => Ok(()),
        }
    }

    /// Whom the worker trusts. `None` if it takes no tokens.
    pub(crate) fn trust(&self) -> Option<Trust> {
        let keys = self.keys.clone()?;
        Some(Trust::new(keys, self.revoked.clone(), self.skew.0))
    }
}
