//! Blocks that whoever holds a token can sign, whatever bytes they are: each is refused, or only takes away.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::prelude::*;
use prost::Message as _;
use thermae_capabilities::Set;
use thermae_schemas::{ClientId, TenantName};
use thermae_testkit::hostile;

use crate::envelope::{self, Envelope};
use crate::statement::Statement;
use crate::wire::Biscuit;
use crate::{
    Grant, Issuer, Narrowing, PublicKeys, Refused, RevocationList, SecretKey, TokenId, Verified, Verifier, attenuate,
    chain, revocation_ids,
};

/// Late in 2098, in seconds since 1970: a block that is made while these tests run was made before.
const NOW: u64 = 4_070_000_000;

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

/// What an issuer grants to a tenant.
fn grant(tenant: &str, set: &str, hours: u64) -> Grant {
    Grant {
        id: TokenId::new(tenant).unwrap(),
        tenant: TenantName::new(tenant).unwrap(),
        answers: Some(ClientId::new(tenant).unwrap()),
        not_before: None,
        expires: at(NOW + hours * 3600),
        set: Set::from_json(set).unwrap(),
        calls: std::num::NonZeroU32::new(10),
    }
}

/// A token of `acme`, who verifies it, and what it says.
static PARENT: LazyLock<(Verifier, Biscuit, Verified)> = LazyLock::new(|| {
    let issuer = Issuer::new(1, SecretKey::generate().unwrap());
    let keys: PublicKeys = [(1, issuer.public_key())].into_iter().collect();
    let verifier = Verifier::new(keys, RevocationList::default());
    let text = issuer.mint(&grant("acme", r#"[{"pattern": "pay", "max_calls": 3}]"#, 2)).unwrap();
    let says = verify(&verifier, text.as_str()).unwrap();
    (verifier, Envelope::decode(text.as_str()).ok().unwrap().token, says)
});

fn verify(verifier: &Verifier, text: &str) -> Result<Verified, Refused> {
    verifier.verify(text, &TenantName::new("acme").unwrap(), at(NOW))
}

/// The token with one more block, signed as it should be. `None` if it is too large.
fn with(block: Vec<u8>) -> Option<String> {
    let mut token = PARENT.1.clone();
    chain::append(&mut token, block).unwrap();
    envelope::encode(&token.encode_to_vec()).ok()
}

/// A narrowing, and blocks that want more.
fn seeds() -> Vec<Vec<u8>> {
    let set = Set::from_json(r#"[{"pattern": "**"}]"#).unwrap();
    let narrowing = Narrowing { set: Some(set), expires: Some(at(NOW + 3600)), calls: std::num::NonZeroU32::new(5) };
    let wide = grant("globex", r#"[{"pattern": "**"}]"#, 9);
    let later = Narrowing { expires: Some(at(NOW + 9 * 3600)), ..Narrowing::default() };
    let stated = [Statement::of_narrowing(&narrowing), Statement::of_grant(&wide), Statement::of_narrowing(&later)];
    let (_, symbols) = envelope::statements(&PARENT.1).unwrap();
    let write = |statement: Statement| statement.write(&mut symbols.clone());
    stated.into_iter().map(|statement| write(statement.unwrap())).collect()
}

#[test]
fn the_seeds_are_read() {
    let codes = seeds().into_iter().map(|block| verify(&PARENT.0, &with(block).unwrap()));
    let codes: Vec<_> = codes.map(|read| read.map(|_| ()).map_err(|refused| refused.to_string())).collect();
    let [narrowing, wide, later] = &codes[..] else { panic!("{codes:?}") };
    assert!(narrowing.is_ok() && later.is_ok(), "{codes:?}");
    assert!(wide.as_ref().is_err_and(|why| why.contains("only the issuer can state")), "{codes:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_signed_block_of_any_bytes_is_refused_or_only_takes_away(
        block in prop_oneof![6 => hostile::damaged(prop::sample::select(seeds())), 1 => hostile::bytes()],
    ) {
        let Some(text) = with(block) else { return Ok(()) };
        let parent = &PARENT.2;
        let less = Narrowing { calls: parent.calls.first().map(|limit| limit.most), ..Narrowing::default() };
        let _ = (revocation_ids(&text), attenuate(&text, &less));
        let Ok(child) = verify(&PARENT.0, &text) else { return Ok(()) };
        prop_assert_eq!((&child.tenant, &child.answers, &child.id), (&parent.tenant, &parent.answers, &parent.id));
        prop_assert!(child.expires <= parent.expires);
        prop_assert!(child.rules.sets().starts_with(parent.rules.sets()));
        prop_assert!(child.sets.starts_with(&parent.sets) && child.calls.starts_with(&parent.calls));
        prop_assert!(child.blocks.starts_with(&parent.blocks) && child.blocks.len() == 2);
    }
}
