//! Revocation of tokens.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use crate::Refused;
use crate::envelope::{self, Envelope};

/// The name under which a block of a token is revoked, and its calls are counted: the block's signature. A narrowed
/// token has the blocks of its parent, so whoever revokes a token revokes all that was made from it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RevocationId([u8; 64]);

/// A text that is no revocation id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is no revocation id, which has 128 hexadecimal digits")]
pub struct BadRevocation {
    /// Number of the line, from 1.
    pub line: usize,
}

impl RevocationId {
    pub(crate) fn of(signature: &[u8]) -> Option<Self> {
        signature.try_into().ok().map(Self)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; 64] {
        &self.0
    }
}

impl fmt::Display for RevocationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for RevocationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for RevocationId {
    type Err = BadRevocation;

    fn from_str(text: &str) -> Result<Self, BadRevocation> {
        let mut bytes = [0; 64];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| BadRevocation { line: 1 })?;
        Ok(Self(bytes))
    }
}

/// The revocation ids of a token's blocks, the issuer's first. The signatures are not checked. To revoke a token and
/// not its parent, use the last one.
///
/// # Errors
/// The text is no token.
pub fn revocation_ids(token: &str) -> Result<Vec<RevocationId>, Refused> {
    let envelope = Envelope::decode(token)?;
    envelope::statements(&envelope.token)?;
    Ok(envelope.ids()?)
}

/// The blocks that are revoked. An entry can be removed when the token has expired.
#[derive(Debug, Clone, Default)]
pub struct RevocationList(HashSet<RevocationId>);

impl RevocationList {
    /// Reads a list with one id in each line. Empty lines and lines that begin with `#` are skipped.
    ///
    /// # Errors
    /// A line is no id. Nothing of the list is then used: the line may have been to revoke a token.
    pub fn read(text: &str) -> Result<Self, BadRevocation> {
        let lines = text.lines().map(str::trim).enumerate();
        let ids = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let read = |(number, line): (usize, &str)| {
            line.parse().map_err(|BadRevocation { .. }| BadRevocation { line: number + 1 })
        };
        ids.map(read).collect::<Result<_, _>>().map(Self)
    }

    /// Whether a block is revoked.
    pub fn has(&self, id: &RevocationId) -> bool {
        self.0.contains(id)
    }
}

impl FromIterator<RevocationId> for RevocationList {
    fn from_iter<I: IntoIterator<Item = RevocationId>>(ids: I) -> Self {
        Self(ids.into_iter().collect())
    }
}
