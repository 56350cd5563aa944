//! Tokens that are signed as they should be, and say what a token can't say. Each is made with Biscuit's own crate, by
//! someone who has the key or the token, and is refused or gives no more than it should.

mod common;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use biscuit_auth::builder::Scope;
use biscuit_auth::format::schema;
use biscuit_auth::{Algorithm, Biscuit, BiscuitBuilder, BlockBuilder, KeyPair};
use common::{KEY, NOW, at, keys, public, tenant, verify};
use prost_of_biscuit::Message as _;
use thermae_tokens::{Issuer, PublicKeys, Refused, RevocationList, SecretKey, Verifier, attenuate};

/// An issuer's key, as this crate and as Biscuit's has it.
struct Root {
    issuer: Issuer,
    pair: KeyPair,
}

impl Root {
    fn new() -> Self {
        let secret = SecretKey::generate().unwrap();
        Self { pair: common::biscuit_pair(&secret), issuer: Issuer::new(KEY, secret) }
    }

    fn sign(&self, block: BlockBuilder) -> Biscuit {
        BiscuitBuilder::new().merge(block).root_key_id(KEY).build(&self.pair).unwrap()
    }

    /// What comes of a token: `ok`, or its code and its text.
    fn outcome(&self, token: &Biscuit) -> String {
        self.outcome_of(&token.to_base64().unwrap())
    }

    fn outcome_of(&self, text: &str) -> String {
        match verify(&self.issuer, text) {
            Ok(_) => "ok".to_owned(),
            Err(refused) => format!("{}: {refused}", refused.code().as_str()),
        }
    }
}

/// The facts of a good first block, in Biscuit's language.
const GOOD: [&str; 7] = [
    "thermae(1)",
    "made(1800000000123)",
    r#"token("t1")"#,
    r#"tenant("acme")"#,
    r#"answers("c1")"#,
    "expires(2099-01-01T00:00:00Z)",
    r#"capabilities("[{\"pattern\": \"t\"}]")"#,
];

fn block(facts: &[&str]) -> BlockBuilder {
    let code: String = facts.iter().map(|fact| format!("{fact};")).collect();
    BlockBuilder::new().code(&code).unwrap_or_else(|error| panic!("{code}: {error}"))
}

/// A good first block without the facts of one name, and with others.
fn first(without: &str, with: &[&str]) -> BlockBuilder {
    let kept = GOOD.iter().filter(|fact| fact.split('(').next() != Some(without)).copied();
    block(&kept.chain(with.iter().copied()).collect::<Vec<_>>())
}

/// A fact, rule or check, and why a block with it is refused.
type Case = (&'static str, &'static str);

/// What no block can say.
const NOWHERE: [Case; 20] = [
    ("admin(true)", r#"states "admin", which is unknown"#),
    (r#"right("t", "read")"#, r#"states "right", which is unknown"#),
    (r#"Tenant("acme")"#, r#"states "Tenant", which is unknown"#),
    (r#"capability("[]")"#, r#"states "capability", which is unknown"#),
    ("revoked(false)", r#"states "revoked", which is unknown"#),
    ("calls(0)", "states calls in a wrong form"),
    ("calls(-1)", "states calls in a wrong form"),
    ("calls(4294967296)", "states calls in a wrong form"),
    (r#"calls("3")"#, "states calls in a wrong form"),
    ("calls(3, 4)", "states calls in a wrong form"),
    ("calls(3); calls(4)", "states calls twice"),
    ("calls(3); calls(3)", "states calls twice"),
    (r#"tenant($t) <- user($t)"#, "has rules, and may have only facts"),
    (r#"capabilities("[]") <- user($t)"#, "has rules, and may have only facts"),
    ("check if true", "has checks, and may have only facts"),
    ("check if time($t), $t < 2020-01-01T00:00:00Z", "has checks, and may have only facts"),
    ("check all user($u), $u > 1", "has the block version 4, and must have 3"),
    ("reject if true", "has the block version 6, and must have 3"),
    ("calls(null)", "has the block version 6, and must have 3"),
    ("calls([3])", "states calls in a wrong form"),
];

/// What a first block can't say, after what is left out.
const FIRST: [(&str, Case); 33] = [
    ("thermae", ("calls(1)", "does not state thermae")),
    ("token", ("calls(1)", "does not state token")),
    ("tenant", ("calls(1)", "does not state tenant")),
    ("made", ("calls(1)", "does not state made")),
    ("made", ("made(-1)", "states made in a wrong form")),
    ("made", ("made(9223372036854775807)", "states made in a wrong form")),
    ("made", ("made(2099-01-01T00:00:00Z)", "states made in a wrong form")),
    ("", ("made(1)", "states made twice")),
    ("expires", ("calls(1)", "does not state expires")),
    ("capabilities", ("calls(1)", "does not state capabilities")),
    ("thermae", ("thermae(0)", "has the form 0, and this release reads the form 1")),
    ("thermae", ("thermae(2)", "has the form 2, and this release reads the form 1")),
    ("thermae", (r#"thermae("1")"#, "states thermae in a wrong form")),
    ("", ("thermae(2)", "states thermae twice")),
    ("", (r#"token("t2")"#, "states token twice")),
    ("", (r#"tenant("globex")"#, "states tenant twice")),
    ("", (r#"answers("c2")"#, "states answers twice")),
    ("", ("expires(2110-01-01T00:00:00Z)", "states expires twice")),
    ("", (r#"capabilities("[{\"pattern\": \"**\"}]")"#, "states capabilities twice")),
    ("token", (r#"token("")"#, "has a bad id")),
    ("token", (r#"token("a b")"#, "has a bad id")),
    ("tenant", (r#"tenant("acme.x")"#, "has a bad name: tenant")),
    ("tenant", (r#"tenant("*")"#, "has a bad name: tenant")),
    ("tenant", (r#"tenant("acme", "globex")"#, "states tenant in a wrong form")),
    ("answers", (r##"answers("#")"##, "has a bad name")),
    ("expires", (r#"expires("2099-01-01T00:00:00Z")"#, "states expires in a wrong form")),
    ("expires", ("expires(1900000000)", "states expires in a wrong form")),
    ("expires", ("expires(false)", "states expires in a wrong form")),
    ("capabilities", (r#"capabilities("")"#, "has a bad set: capabilities: can't be read")),
    ("capabilities", (r#"capabilities("{}")"#, "has a bad set: capabilities: must be a list")),
    ("capabilities", (r#"capabilities("[{\"pattern\": \"t\", \"max_calls\": 0}]")"#, "has a bad set: capabilities[0]")),
    ("capabilities", (r#"capabilities("[{\"pattern\": \"t\", \"x\": 1}]")"#, "has a bad set: capabilities[0]")),
    ("capabilities", ("capabilities(true)", "states capabilities in a wrong form")),
];

/// What a narrowing can't say.
const NARROWING: [Case; 10] = [
    (r#"thermae(1); tenant("globex")"#, "states tenant, which only the issuer can state"),
    (r#"thermae(1); tenant("acme")"#, "states tenant, which only the issuer can state"),
    (r#"thermae(1); token("t2")"#, "states token, which only the issuer can state"),
    (r#"thermae(1); answers("c2")"#, "states answers, which only the issuer can state"),
    ("thermae(1); not_before(2020-01-01T00:00:00Z)", "states not_before, which only the issuer can state"),
    (r#"capabilities("[]")"#, "does not state thermae"),
    (r#"thermae(2); capabilities("[]")"#, "has the form 2"),
    (r#"thermae(1); capabilities("[]"); capabilities("[{\"pattern\": \"**\"}]")"#, "states capabilities twice"),
    (r#"thermae(1); capabilities("null")"#, "has a bad set: capabilities: must be a list"),
    ("thermae(1); expires(9999-12-31T23:59:59Z); expires(2029-01-01T00:00:00Z)", "states expires twice"),
];

#[test]
fn a_block_says_only_what_it_can_say() {
    let root = Root::new();
    assert_eq!(root.outcome(&root.sign(first("", &[]))), "ok");
    let mut wrong = Vec::new();
    let mut check = |about: String, token: Biscuit, number: usize, why: &str| {
        let outcome = root.outcome(&token);
        if !outcome.starts_with(&format!("token_malformed: block {number} of the token {why}")) {
            wrong.push(format!("{about}\n  wanted {why}\n  got    {outcome}"));
        }
        // Whoever would narrow such a token is told the same.
        assert!(attenuate(&token.to_base64().unwrap(), &common::narrowing("[]")).is_err(), "{about}");
    };
    let good = root.sign(first("", &[]));
    for (fact, why) in NOWHERE {
        check(format!("first: {fact}"), root.sign(first("", &[fact])), 0, why);
        check(format!("second: {fact}"), good.append(block(&["thermae(1)", fact])).unwrap(), 1, why);
    }
    for (without, (fact, why)) in FIRST {
        check(format!("first: {fact}"), root.sign(first(without, &[fact])), 0, why);
    }
    for (facts, why) in NARROWING {
        check(format!("second: {facts}"), good.append(block(&[facts])).unwrap(), 1, why);
    }
    let context = |block: BlockBuilder| block.context("a note".to_owned());
    let scope = |block: BlockBuilder| block.scope(Scope::Previous);
    check("context".into(), root.sign(context(first("", &[]))), 0, "has a context, and may have only facts");
    // Merging a block leaves its scopes out.
    let scoped = BiscuitBuilder::new().merge(first("", &[])).scope(Scope::Previous).root_key_id(KEY);
    check("scope".into(), scoped.build(&root.pair).unwrap(), 0, "has the block version 4, and must have 3");
    let narrows = || block(&["thermae(1)", "calls(1)"]);
    check("context".into(), good.append(context(narrows())).unwrap(), 1, "has a context, and may have only facts");
    check("scope".into(), good.append(scope(narrows())).unwrap(), 1, "has the block version 4, and must have 3");
    assert!(wrong.is_empty(), "{} cases are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_order_of_facts_and_a_narrowing_of_nothing_change_nothing() {
    let root = Root::new();
    let reversed: Vec<_> = GOOD.into_iter().rev().collect();
    let token = root.sign(block(&reversed)).append(block(&["thermae(1)"])).unwrap();
    let verified = verify(&root.issuer, &token.to_base64().unwrap()).unwrap();
    assert_eq!((verified.sets.len(), verified.blocks.len(), verified.rules.sets().len()), (1, 2, 1));
}

#[test]
fn a_narrowing_by_another_writer_widens_nothing() {
    let root = Root::new();
    let wider = r#"capabilities("[{\"pattern\": \"**\"}]")"#;
    let good = root.sign(first("", &["calls(5)"]));
    let token = good.append(block(&["thermae(1)", wider, "expires(2120-01-01T00:00:00Z)", "calls(500)"])).unwrap();
    let [parent, child] = [good, token].map(|token| verify(&root.issuer, &token.to_base64().unwrap()).unwrap());
    assert_eq!(child.expires, parent.expires);
    assert_eq!(child.rules.sets()[0], parent.rules.sets()[0]);
    assert_eq!(child.calls[0], parent.calls[0]);
    assert_eq!((child.rules.sets().len(), child.calls.len()), (2, 2));
}

#[test]
fn a_block_of_a_third_party_is_refused() {
    let root = Root::new();
    let good = root.sign(first("", &[]));
    let other = KeyPair::new();
    let request = good.third_party_request().unwrap();
    let theirs = request.create_block(&other.private(), block(&["thermae(1)", "calls(1)"])).unwrap();
    let token = good.append_third_party(other.public(), theirs).unwrap();
    assert_eq!(root.outcome(&token), "token_malformed: block 1 of the token comes from a third party");
}

#[test]
fn a_key_of_another_kind_is_refused() {
    let root = Root::new();
    let other = KeyPair::new_with_algorithm(Algorithm::Secp256r1);
    let token = root.sign(first("", &[])).append_with_keypair(&other, block(&["thermae(1)"])).unwrap();
    assert_eq!(root.outcome(&token), "token_malformed: block 1 of the token has a key that is not Ed25519");
    // The blocks that such a key signs are then never read.
    let token = token.append(block(&["thermae(1)"])).unwrap();
    assert_eq!(root.outcome(&token), "token_malformed: block 1 of the token has a key that is not Ed25519");
    let token = BiscuitBuilder::new().merge(first("", &[])).root_key_id(KEY).build(&other).unwrap();
    assert!(root.outcome(&token).starts_with("token_"), "{}", root.outcome(&token));
}

/// A token's parts, to be put together in other ways.
fn parts(token: &Biscuit) -> schema::Biscuit {
    schema::Biscuit::decode(token.to_vec().unwrap().as_slice()).unwrap()
}

fn text(parts: &schema::Biscuit) -> String {
    URL_SAFE.encode(parts.encode_to_vec())
}

#[test]
fn a_token_in_other_parts_is_refused() {
    let root = Root::new();
    // No narrowing brings texts, so that each could stand where another one does.
    let good = root.sign(first("", &["calls(10)"]));
    let narrowed = good.append(block(&["thermae(1)", "calls(1)"])).unwrap();
    let twice = narrowed.append(block(&["thermae(1)", "calls(2)"])).unwrap();
    let other = root.sign(first("capabilities", &[r#"capabilities("[{\"pattern\": \"**\"}]")"#, "calls(10)"]));
    let other_narrowed = other.append(block(&["thermae(1)", "calls(2)"])).unwrap();
    let change = |token: &Biscuit, change: &dyn Fn(&mut schema::Biscuit)| {
        let mut parts = parts(token);
        change(&mut parts);
        root.outcome_of(&text(&parts))
    };
    let bad = "token_bad_signature: a signature of the token is wrong";
    assert_eq!(change(&twice, &|_| {}), "ok");
    assert_eq!(change(&narrowed, &|token| drop(token.blocks.pop())), bad, "the narrowing is cut off");
    assert_eq!(change(&twice, &|token| drop(token.blocks.remove(0))), bad, "the first narrowing is cut out");
    assert_eq!(change(&twice, &|token| token.blocks.swap(0, 1)), bad, "the narrowings are swapped");
    let theirs = parts(&other_narrowed);
    assert_eq!(change(&narrowed, &|token| token.authority = theirs.authority.clone()), bad, "another first block");
    assert_eq!(change(&narrowed, &|token| token.blocks = theirs.blocks.clone()), bad, "another narrowing");
    assert_eq!(change(&narrowed, &|token| token.proof = theirs.proof.clone()), bad, "another proof");
    assert_eq!(change(&narrowed, &|token| token.proof = parts(&good).proof), bad, "the parent's proof");
    assert_eq!(change(&good, &|token| token.blocks = parts(&narrowed).blocks), bad, "a narrowing without its proof");
    let unknown = |id| format!("token_unknown_key: no public key has the id that the token names ({id})");
    assert_eq!(change(&good, &|token| token.root_key_id = None), unknown("none"));
    assert_eq!(change(&good, &|token| token.root_key_id = Some(KEY + 1)), unknown("8"));
    let none = change(&good, &|token| token.proof.content = None);
    assert!(none.starts_with("token_malformed: the token can't be decoded"), "{none}");
    for version in [2, 3, u32::MAX] {
        let outcome = change(&good, &|token| token.authority.version = Some(version));
        assert!(outcome.starts_with("token_malformed: the token can't be decoded"), "{version}: {outcome}");
    }
    assert_eq!(change(&good, &|token| token.authority.version = Some(1)), bad, "another version of the signature");
    let short = change(&good, &|token| token.authority.signature.truncate(63));
    assert_eq!(short, "token_malformed: block 0 of the token can't be decoded: a signature does not have 64 bytes");
    // The key's order added to the second half of a signature: the same signature for a careless reader.
    let outcome = change(&good, &|token| token.authority.signature = plus_order(&token.authority.signature));
    assert_eq!(outcome, bad);
}

/// The signature with the order of the curve's group added to its second number.
fn plus_order(signature: &[u8]) -> Vec<u8> {
    let order = hex::decode("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010").unwrap();
    let mut carry = 0;
    let high = signature[32..].iter().zip(&order).map(|(a, b)| {
        let sum = u16::from(*a) + u16::from(*b) + carry;
        carry = sum >> 8;
        (sum & 0xff) as u8
    });
    signature[..32].iter().copied().chain(high).collect()
}

/// A token with these bytes as its first block.
fn signed(root: &Root, block: Vec<u8>) -> String {
    let next = KeyPair::new();
    let key = next.public().to_proto();
    let message = [block.clone(), 0_i32.to_le_bytes().to_vec(), key.key.clone()].concat();
    let signature = root.pair.sign(&message).unwrap().to_bytes().to_vec();
    let authority = schema::SignedBlock { block, next_key: key, signature, external_signature: None, version: None };
    let secret = schema::proof::Content::NextSecret(next.private().to_bytes().to_vec());
    let proof = schema::Proof { content: Some(secret) };
    text(&schema::Biscuit { root_key_id: Some(KEY), authority, blocks: Vec::new(), proof })
}

#[test]
fn bytes_that_the_content_does_not_explain_are_refused() {
    let root = Root::new();
    let good = parts(&root.sign(first("", &[]))).authority.block;
    assert_eq!(root.outcome_of(&signed(&root, good.clone())), "ok");
    let excess = "token_malformed: block 0 of the token has bytes that its content does not explain";
    // Field 15 with the number 1; version 3 once more; an empty symbol list entry in another order.
    for more in [&[0x78, 0x01][..], &[0x18, 0x03]] {
        let block = [good.as_slice(), more].concat();
        assert_eq!(root.outcome_of(&signed(&root, block)), excess, "{more:?}");
    }
    let change = |change: &dyn Fn(&mut schema::Block)| {
        let mut block = schema::Block::decode(good.as_slice()).unwrap();
        change(&mut block);
        root.outcome_of(&signed(&root, block.encode_to_vec()))
    };
    for version in [None, Some(0), Some(2), Some(4), Some(6), Some(7), Some(u32::MAX)] {
        let wanted = version.unwrap_or(0);
        let wanted = format!("token_malformed: block 0 of the token has the block version {wanted}, and must have 3");
        assert_eq!(change(&|block| block.version = version), wanted);
    }
    let symbols = "token_malformed: block 0 of the token has wrong symbols";
    assert_eq!(change(&|block| drop(block.symbols.pop())), symbols);
    assert_eq!(change(&|block| block.symbols.push("tenant".into())), symbols, "one of Biscuit's own");
    assert_eq!(change(&|block| block.symbols.push("thermae".into())), symbols, "one that is there");
    assert_eq!(change(&|block| block.symbols.extend((0..20).map(|n| n.to_string()))), symbols, "too many");
    assert_eq!(change(&|block| block.facts[0].predicate.name = u64::MAX), symbols);
    assert_eq!(change(&|block| block.facts[0].predicate.name = 1023), symbols);
    let form = "token_malformed: block 0 of the token states thermae in a wrong form";
    assert_eq!(change(&|block| block.facts[0].predicate.terms.clear()), form);
    assert_eq!(change(&|block| block.facts[0].predicate.terms[0].content = None), form);
    let keys = change(&|block| block.public_keys.push(root.pair.public().to_proto()));
    assert_eq!(keys, "token_malformed: block 0 of the token has public keys, and may have only facts");
    let scope = change(&|block| block.scope.push(schema::Scope { content: None }));
    assert_eq!(scope, "token_malformed: block 0 of the token has a scope, and may have only facts");
    let garbage = root.outcome_of(&signed(&root, vec![0xff; 20]));
    assert!(garbage.starts_with("token_malformed: block 0 of the token can't be decoded"), "{garbage}");
    // The same around the blocks.
    let token = URL_SAFE.decode(signed(&root, good)).unwrap();
    let outcome = root.outcome_of(&URL_SAFE.encode([token.as_slice(), &[0x78, 0x01]].concat()));
    assert_eq!(outcome, "token_malformed: the token has bytes that its content does not explain");
}

#[test]
fn a_signature_counts_only_under_its_own_key_and_id() {
    let [root, other] = [Root::new(), Root::new()];
    let token = root.sign(first("", &[])).to_base64().unwrap();
    let with = |keys: PublicKeys| {
        let verifier = Verifier::new(keys, RevocationList::default());
        verifier.verify(&token, &tenant("acme"), at(NOW)).map_err(|refused| refused.code().as_str())
    };
    assert!(with(keys(&root.issuer)).is_ok());
    assert_eq!(with(keys(&other.issuer)).unwrap_err(), "token_bad_signature");
    assert_eq!(with(PublicKeys::default()).unwrap_err(), "token_unknown_key");
    let swapped = [(KEY, public(&other.pair)), (KEY + 1, public(&root.pair))];
    assert_eq!(with(swapped.into_iter().collect()).unwrap_err(), "token_bad_signature");
}

#[test]
fn every_code_is_listed_once() {
    let codes: std::collections::HashSet<_> = Refused::CODES.into_iter().collect();
    assert_eq!(codes.len(), Refused::CODES.len());
    assert!(codes.contains(&Refused::Revoked.code()) && codes.contains(&Refused::Expired.code()));
}
