//! The entry of a key.

use std::num::NonZeroU32;

use thermae_schemas::TenantName;

use crate::{KeyId, Scopes, Uncreated};

/// Most characters of a key's name.
const LONGEST_NAME: usize = 100;

/// What the store knows of a key, except for its hash. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Its id.
    pub id: KeyId,
    /// A name for people.
    pub name: String,
    /// The tenant for which its owner acts.
    pub tenant: TenantName,
    /// What it may be used for.
    pub scopes: Scopes,
    /// How much it may be used.
    pub limits: Limits,
    /// When it was made.
    pub created_ms: u64,
    /// From when it is not valid any more. `None` if it does not expire.
    pub expires_ms: Option<u64>,
    /// When it was last used, at most [`TOUCH_EVERY`](crate::TOUCH_EVERY) too early. `None` if it never was.
    pub last_used_ms: Option<u64>,
    /// When it was revoked.
    pub revoked_ms: Option<u64>,
}

/// How much a key may be used. `None` is no limit of the key's own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests per minute.
    pub requests_per_minute: Option<NonZeroU32>,
    /// Runs at once.
    pub runs_at_once: Option<NonZeroU32>,
}

/// A key that shall be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    /// A name for people: 1 to 100 characters, none of them a control character.
    pub name: String,
    /// The tenant for which its owner acts.
    pub tenant: TenantName,
    /// What it may be used for: at least one scope.
    pub scopes: Scopes,
    /// How much it may be used.
    pub limits: Limits,
    /// From when it is not valid any more, in milliseconds since 1970. `None` if it does not expire.
    pub expires_ms: Option<u64>,
}

impl NewKey {
    pub(crate) fn check(&self, now_ms: u64) -> Result<(), Uncreated> {
        let length = self.name.chars().count();
        if !(1..=LONGEST_NAME).contains(&length) || self.name.chars().any(char::is_control) {
            return Err(Uncreated::Name);
        }
        if self.scopes.is_empty() {
            return Err(Uncreated::NoScope);
        }
        if self.expires_ms.is_some_and(|end| end <= now_ms || i64::try_from(end).is_err()) {
            return Err(Uncreated::Expired);
        }
        Ok(())
    }
}
