//! What a token gives, and what a narrowing takes.

use std::num::NonZeroU32;
use std::time::SystemTime;

use thermae_capabilities::Set;
use thermae_schemas::{ClientId, TenantName};

use crate::TokenId;

/// What a new token gives to whoever holds it and acts for its tenant.
#[derive(Debug, Clone, PartialEq)]
pub struct Grant {
    /// The token's id.
    pub id: TokenId,
    /// The tenant whose jobs may use it.
    pub tenant: TenantName,
    /// The client of this tenant to which its calls are sent. `None` if it is the client that has the run.
    pub answers: Option<ClientId>,
    /// The time from which it is valid. A time between two seconds counts as the next second. `None` if it is valid at
    /// once.
    pub not_before: Option<SystemTime>,
    /// The time from which it is not valid any more. A time between two seconds counts as the second before.
    pub expires: SystemTime,
    /// Which calls it allows.
    pub set: Set,
    /// Most calls in all. `None` if only the set limits them.
    pub calls: Option<NonZeroU32>,
}

/// What a narrowing takes away. What it does not state stays as it was.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Narrowing {
    /// A set that must allow a call, too.
    pub set: Option<Set>,
    /// An earlier end. A time between two seconds counts as the second before.
    pub expires: Option<SystemTime>,
    /// Most calls of the narrowed token, and of those that are made from it, together.
    pub calls: Option<NonZeroU32>,
}
