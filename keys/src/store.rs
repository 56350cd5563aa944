//! Where entries of keys are kept.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use subtle::ConstantTimeEq as _;
use thermae_schemas::TenantName;

use crate::{Key, KeyId, Listed, Query, StoreError};

/// How long an operation on a store may take, unless the store was opened with another limit.
pub const LIMIT: Duration = Duration::from_secs(3);

/// What the store keeps of a key's text: its SHA-256.
#[derive(Clone, Copy)]
pub struct Hash([u8; 32]);

impl Hash {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Whether two hashes are equal. It takes as long whether they are or not.
    pub fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl From<[u8; 32]> for Hash {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash")
    }
}

/// An entry.
#[derive(Debug, Clone)]
pub struct Stored {
    /// The key.
    pub key: Key,
    /// What is kept of its text.
    pub hash: Hash,
}

/// Keeps the entries of keys. Each operation is one step: nobody sees a part of it. Each fails with a [`StoreError`] if
/// the store gives no answer in time; what it should do may then have been done.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync {
    /// Adds an entry. Fails if there is one with the same id.
    async fn insert(&self, entry: &Stored) -> Result<(), StoreError>;

    /// The entry of a key. `None` if there is none.
    async fn find(&self, id: &KeyId) -> Result<Option<Stored>, StoreError>;

    /// Entries in the order in which they were made.
    async fn list(&self, query: &Query) -> Result<Listed, StoreError>;

    /// Revokes a key, of this tenant if one is given. Gives the key, or `None` if there is none. A key that was revoked
    /// before keeps its time.
    async fn revoke(&self, id: &KeyId, tenant: Option<&TenantName>, now_ms: u64) -> Result<Option<Key>, StoreError>;

    /// Notes that a key was used, unless a use at or after `unless_since_ms` is noted.
    async fn touch(&self, id: &KeyId, now_ms: u64, unless_since_ms: u64) -> Result<(), StoreError>;
}
