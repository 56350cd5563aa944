//! API keys: who may use the gateway, for which tenant, and for what.
//!
//! A key is a text that its owner keeps, `thm_<id>_<secret>`. A store has an entry for each key ([`Key`]), with a hash
//! of the text and never the text itself. There are two kinds of [`Store`]: a file (SQLite) for one gateway, and a
//! database (Postgres) that several share. [`Keys`] makes keys and finds out whose key a request has.
//!
//! ```text
//! request with a key ─▶ Keys::authenticate ─▶ Key: tenant, scopes, limits
//!                        cache, CACHE_TTL
//!                              │
//!                       Store: Sqlite | Postgres
//! ```
//!
//! Nothing here may fail open: while the store is away, the answer is an error ([`Denied::Unavailable`]). The cache
//! answers only with what the store said less than [`CACHE_TTL`] ago, so a key that is revoked anywhere stops working
//! everywhere within that time.
//!
//! The gateway enforces the limits of a key. [`Bucket`] counts its requests.

#![forbid(unsafe_code)]

mod bucket;
mod cache;
mod error;
mod key;
mod keys;
mod page;
mod postgres;
mod sql;
mod sqlite;
mod store;
mod text;

pub use bucket::{Bucket, Wait};
pub use error::{Denied, StoreError, Uncreated};
pub use key::{Key, Limits, NewKey};
pub use keys::{CACHE_TTL, Created, Keys, LONGEST_CACHE_TTL, TOUCH_EVERY};
pub use page::{BadCursor, Cursor, LARGEST_PAGE, Listed, Query};
pub use postgres::Postgres;
pub use sqlite::Sqlite;
pub use store::{Hash, LIMIT, Store, Stored};
pub use text::{BadKeyText, KeyId, KeyText};
// What a key may be used for.
pub use thermae_schemas::{Scope, Scopes, UnknownScope};
