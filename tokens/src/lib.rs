//! Capability tokens: a set of capabilities that travels, signed, and that anyone who holds it can narrow.
//!
//! A token is a Biscuit (<https://www.biscuitsec.org>, Ed25519). An [`Issuer`] signs its first block, which says whose
//! it is, who answers its calls, when it was made, until when it is valid, and what it allows. Whoever holds a token
//! can add a block that takes something away ([`attenuate`]), without a key and without asking anyone. A [`Verifier`]
//! with the issuers' public keys reads it. [`Trust`] makes a verifier from files, anew when they change.
//!
//! ```text
//! Grant ─▶ Issuer::mint ─▶ text ─▶ attenuate ─▶ text ─▶ Verifier::verify ─▶ Verified: tenant, answers, expires, rules
//!                                   Narrowing            PublicKeys, RevocationList, the time
//! ```
//!
//! Nothing here may fail open. So:
//!
//! - A token says a few facts in one form (`statement.rs` has them). Of Biscuit's language, nothing else may stand in
//!   it: no rules, no checks, no scopes, no block of a third party. Such a token is refused, also where it would do no
//!   harm.
//! - The bytes must be those that a writer of the same content writes. An unknown field anywhere is refused.
//! - A block after the first can only take away: its set is one more that must allow a call
//!   ([`Rules::narrow`](thermae_capabilities::Rules::narrow)), and its time and its count hold beside those before it.
//!   A block that says anything else, such as another tenant, is refused.
//! - All keys in a token are Ed25519. With the other kind that Biscuit knows, a signature could be changed without
//!   becoming invalid, and it is the name under which a token is revoked and counted.
//!
//! A token is a secret: whoever has its text can use it within its tenant. This crate does no I/O but for
//! files with keys and revocations, keeps no counts, and never writes a token to a log.

#![forbid(unsafe_code)]

mod attenuate;
mod chain;
mod envelope;
mod error;
mod grant;
#[cfg(test)]
mod hostile;
mod id;
mod issuer;
mod key;
mod key_file;
mod pem;
mod public_keys;
mod revocation;
mod statement;
mod symbols;
mod time;
mod token;
mod trust;
mod verified;
mod verifier;
mod wire;

pub use attenuate::attenuate;
pub use error::{Flaw, Malformed, Refused, Unwritten};
pub use grant::{Grant, Narrowing};
pub use id::{BadTokenId, TokenId};
pub use issuer::Issuer;
pub use key::{BadKey, PublicKey, SecretKey};
pub use key_file::KeyFileError;
pub use public_keys::PublicKeys;
pub use revocation::{BadRevocation, RevocationId, RevocationList, revocation_ids};
pub use token::Token;
pub use trust::{Trust, TrustError};
pub use verified::{Block, CallLimit, Verified};
pub use verifier::{LONGEST_SKEW, SKEW, Verifier};

/// Most bytes of a token's text.
pub const LARGEST_TOKEN: usize = 64 << 10;

/// Most blocks of a token: the issuer's, and one for each time that it was narrowed.
pub const MOST_BLOCKS: usize = 16;

// Each block can have a set, and so can the job that uses the token.
const _: () = assert!(MOST_BLOCKS < thermae_capabilities::MOST_SETS);
