//! What must hold for any sets, any calls and any damage.

mod common;
#[path = "../../capabilities/tests/random/mod.rs"]
#[allow(dead_code, reason = "these tests use a part")]
mod random;

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use common::{NOW, at, calls, grant, issuer, set, verify};
use proptest::prelude::*;
use proptest::strategy::LazyJust;
use random::{Asked, asked};
use serde_json::{Value, json};
use thermae_capabilities::{Arguments, Call, InMemory, Rules, Unchecked, decide};
use thermae_testkit::hostile;
use thermae_tokens::{Grant, Issuer, Narrowing, attenuate, revocation_ids};

fn allowed(rules: &Rules, counts: &InMemory, asked: &Asked) -> bool {
    let arguments = Arguments::read(&asked.arguments.to_string()).unwrap();
    decide(rules, Call { tool: &asked.tool, arguments: &arguments }, &Unchecked, counts).is_ok()
}

/// Those of these calls that are allowed, one after the other.
fn through(rules: &Rules, calls: &[Asked]) -> Vec<Asked> {
    let counts = InMemory::default();
    calls.iter().filter(|call| allowed(rules, &counts, call)).cloned().collect()
}

fn minted(issuer: &Issuer, of: &Value) -> String {
    issuer.mint(&Grant { set: set(&of.to_string()), ..grant() }).unwrap().into()
}

/// A narrowing with a set, or without one.
fn narrowing() -> impl Strategy<Value = (Option<Value>, Option<u32>, Option<u64>)> {
    let count = prop::option::weighted(0.3, 1..100_u32);
    (prop::option::weighted(0.8, random::set(3)), count, prop::option::weighted(0.3, 0..3000_u64))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_narrowed_token_never_allows_what_its_parent_refuses(
        first in random::set(4),
        narrowings in prop::collection::vec(narrowing(), 1..5),
        asked in prop::collection::vec(asked(), 1..20),
    ) {
        let issuer = issuer();
        let mut token = minted(&issuer, &first);
        let mut parent = verify(&issuer, &token).unwrap();
        for (of, most, less) in narrowings {
            let narrowing = Narrowing {
                set: of.map(|of| set(&of.to_string())),
                calls: most.and_then(calls),
                expires: less.map(|less| at(NOW + 3600 - less)),
            };
            let Ok(narrowed) = attenuate(&token, &narrowing) else {
                // It takes nothing away, or would last longer.
                let later = narrowing.expires.is_some_and(|end| end > parent.expires);
                prop_assert!(narrowing == Narrowing::default() || later);
                continue;
            };
            token = narrowed.into();
            let child = verify(&issuer, &token).unwrap();
            // The conjunction, by construction: the parent's sets and limits, and at most one more of each.
            prop_assert_eq!(&child.rules.sets()[..parent.rules.sets().len()], parent.rules.sets());
            prop_assert_eq!(&child.calls[..parent.calls.len()], &parent.calls[..]);
            prop_assert_eq!(&child.sets[..parent.sets.len()], &parent.sets[..]);
            prop_assert_eq!(&child.blocks[..parent.blocks.len()], &parent.blocks[..]);
            prop_assert!(child.expires <= parent.expires);
            prop_assert_eq!((&child.tenant, &child.answers, &child.id), (&parent.tenant, &parent.answers, &parent.id));
            // What that means: whatever the child lets through, the parent lets through, too.
            let through_child = through(&child.rules, &asked);
            prop_assert_eq!(through(&parent.rules, &through_child).len(), through_child.len());
            parent = child;
        }
    }

    #[test]
    fn a_set_in_a_token_is_the_set_that_was_written(of in random::set(5)) {
        let issuer = issuer();
        let verified = verify(&issuer, &minted(&issuer, &of)).unwrap();
        prop_assert_eq!(verified.rules, Rules::new(set(&of.to_string())));
    }
}

/// An issuer, and the bytes of a token that was narrowed once.
static ONE: LazyLock<(Issuer, Vec<u8>)> = LazyLock::new(|| {
    let issuer = issuer();
    let token = minted(&issuer, &json!([{"pattern": "accounts/*"}, {"pattern": "transfer"}]));
    let token = attenuate(&token, &common::narrowing(r#"[{"pattern": "transfer"}]"#)).unwrap();
    (issuer, URL_SAFE.decode(token.as_str()).unwrap())
});

#[test]
fn every_changed_bit_is_found() {
    let (issuer, bytes) = &*ONE;
    for place in 0..bytes.len() {
        for bit in 0..8 {
            let mut bytes = bytes.clone();
            bytes[place] ^= 1 << bit;
            assert!(verify(issuer, &URL_SAFE.encode(&bytes)).is_err(), "bit {bit} of byte {place}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn hostile_damage_to_the_bytes_is_refused(bytes in hostile::damaged(LazyJust::new(|| ONE.1.clone()))) {
        let verified = verify(&ONE.0, &URL_SAFE.encode(&bytes));
        prop_assert_eq!(verified.is_ok(), bytes == ONE.1);
    }

    #[test]
    fn hostile_damage_to_the_text_is_refused(
        text in hostile::damaged(LazyJust::new(|| URL_SAFE.encode(&ONE.1).into_bytes())),
    ) {
        let text = String::from_utf8_lossy(&text);
        prop_assert_eq!(verify(&ONE.0, &text).is_ok(), text == URL_SAFE.encode(&ONE.1));
    }

    #[test]
    fn hostile_text_is_answered(text in prop_oneof![hostile::word(), hostile::json(&["tenant", "capabilities"])]) {
        prop_assert_eq!(verify(&ONE.0, &text).unwrap_err().code().as_str(), "token_malformed");
        prop_assert!(attenuate(&text, &common::narrowing("[]")).is_err());
        prop_assert!(revocation_ids(&text).is_err());
    }
}
