//! What the tests of tokens share.

#![allow(dead_code, reason = "each test uses a part")]

use std::num::NonZeroU32;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use thermae_capabilities::Set;
use thermae_schemas::{ClientId, TenantName};
use thermae_tokens::{
    Grant, Issuer, Narrowing, PublicKey, PublicKeys, Refused, RevocationList, SecretKey, TokenId, Verified, Verifier,
};

/// The time at which these tests happen, in seconds since 1970: late in 2098. A block that is made while they run was
/// made before.
pub(crate) const NOW: u64 = 4_070_000_000;

/// The id of the issuer's key.
pub(crate) const KEY: u32 = 7;

pub(crate) fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

pub(crate) fn set(text: &str) -> Set {
    Set::from_json(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

pub(crate) fn tenant(name: &str) -> TenantName {
    TenantName::new(name).unwrap()
}

pub(crate) fn calls(most: u32) -> Option<NonZeroU32> {
    NonZeroU32::new(most)
}

pub(crate) fn grant() -> Grant {
    Grant {
        id: TokenId::new("t1").unwrap(),
        tenant: tenant("acme"),
        answers: Some(ClientId::new("orchestrator").unwrap()),
        not_before: None,
        expires: at(NOW + 3600),
        set: set(r#"[{"pattern": "accounts/*"}, {"pattern": "transfer", "max_calls": 3}]"#),
        calls: calls(10),
    }
}

pub(crate) fn narrowing(text: &str) -> Narrowing {
    Narrowing { set: Some(set(text)), ..Narrowing::default() }
}

pub(crate) fn issuer() -> Issuer {
    Issuer::new(KEY, SecretKey::generate().unwrap())
}

pub(crate) fn keys(issuer: &Issuer) -> PublicKeys {
    [(issuer.id(), issuer.public_key())].into_iter().collect()
}

pub(crate) fn verifier(issuer: &Issuer) -> Verifier {
    Verifier::new(keys(issuer), RevocationList::default())
}

/// Verifies as the tenant `acme`, now.
pub(crate) fn verify(issuer: &Issuer, token: &str) -> Result<Verified, Refused> {
    verifier(issuer).verify(token, &tenant("acme"), at(NOW))
}

/// A key as Biscuit's own crate has it.
pub(crate) fn biscuit_pair(secret: &SecretKey) -> biscuit_auth::KeyPair {
    biscuit_auth::KeyPair::from_private_key_pem_with_algorithm(&secret.to_pem(), biscuit_auth::Algorithm::Ed25519)
        .unwrap()
}

pub(crate) fn public(pair: &biscuit_auth::KeyPair) -> PublicKey {
    PublicKey::from_pem(&pair.public().to_pem().unwrap()).unwrap()
}
