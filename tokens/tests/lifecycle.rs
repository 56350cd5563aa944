//! Tokens from their making to their end.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use common::{KEY, NOW, at, calls, grant, issuer, keys, narrowing, set, tenant, verifier, verify};
use thermae_capabilities::{Rules, Take};
use thermae_schemas::{ClientId, TenantName};
use thermae_tokens::{
    Block, Grant, Issuer, KeyFileError, LARGEST_TOKEN, LONGEST_SKEW, MOST_BLOCKS, Narrowing, PublicKey, PublicKeys,
    RevocationId, RevocationList, SKEW, SecretKey, TokenId, Unwritten, Verifier, attenuate, revocation_ids,
};

fn ids(blocks: &[Block]) -> Vec<RevocationId> {
    blocks.iter().map(|block| block.id).collect()
}

#[test]
fn a_token_says_what_was_granted() {
    let issuer = issuer();
    let grant = grant();
    let token = issuer.mint(&grant).unwrap();
    let verified = verify(&issuer, token.as_str()).unwrap();
    assert_eq!(verified.id, grant.id);
    assert_eq!(verified.tenant, grant.tenant);
    assert_eq!(verified.answers, grant.answers);
    assert_eq!(verified.expires, grant.expires);
    assert_eq!(verified.rules, Rules::new(grant.set.clone()));
    assert_eq!(ids(&verified.sets), verified.blocks);
    assert_eq!(verified.blocks, revocation_ids(token.as_str()).unwrap());
    assert_eq!(verified.calls.len(), 1);
    assert_eq!((verified.calls[0].most.get(), verified.calls[0].block.id), (10, verified.blocks[0]));
    // Two tokens for one grant are two tokens.
    let again = issuer.mint(&grant).unwrap();
    assert_ne!(revocation_ids(again.as_str()).unwrap(), verified.blocks);
    assert!(!format!("{token:?} {issuer:?}").contains(token.as_str()));
}

#[test]
fn names_that_biscuit_knows_itself_are_names_like_others() {
    let issuer = issuer();
    for name in ["tenant", "client", "read", "query", "admin"] {
        let grant = Grant {
            id: TokenId::new(name).unwrap(),
            tenant: TenantName::new(name).unwrap(),
            answers: ClientId::new(name).ok(),
            ..grant()
        };
        let token = issuer.mint(&grant).unwrap();
        let verified = verifier(&issuer).verify(token.as_str(), &tenant(name), at(NOW)).unwrap();
        assert_eq!((verified.id.as_str(), verified.answers.unwrap().as_str().to_owned()), (name, name.to_owned()));
    }
}

#[test]
fn each_narrowing_adds_a_set_a_count_and_an_end() {
    let issuer = issuer();
    let parent = issuer.mint(&grant()).unwrap();
    let half = Narrowing { expires: Some(at(NOW + 1800)), calls: calls(50), ..Narrowing::default() };
    let one = attenuate(parent.as_str(), &half).unwrap();
    // The same text as the parent's set: it is one more set, with counts of its own.
    let two = attenuate(one.as_str(), &Narrowing { set: Some(grant().set), ..Narrowing::default() }).unwrap();
    let three = attenuate(two.as_str(), &narrowing("[]")).unwrap();
    let read = |token: &thermae_tokens::Token| verify(&issuer, token.as_str()).unwrap();
    let (parent, one, two, three) = (read(&parent), read(&one), read(&two), read(&three));
    assert_eq!((one.expires, three.expires), (at(NOW + 1800), at(NOW + 1800)));
    assert_eq!(one.rules, parent.rules);
    assert_eq!(two.rules, parent.rules.clone().narrow(parent.rules.clone()).unwrap());
    assert_eq!(three.rules, two.rules.clone().narrow(set("[]")).unwrap());
    assert_eq!(ids(&three.sets), [three.blocks[0], three.blocks[2], three.blocks[3]]);
    let limits: Vec<_> = three.calls.iter().map(|limit| (limit.block.id, limit.most.get())).collect();
    assert_eq!(limits, [(parent.blocks[0], 10), (one.blocks[1], 50)]);
    // A narrowed token has its parents' blocks, so it is counted and revoked with them.
    assert_eq!(three.blocks[..3], two.blocks);
    assert_eq!((&three.id, &three.tenant, &three.answers), (&parent.id, &parent.tenant, &parent.answers));
    let (at, capability) = two.rules.capabilities().nth(3).unwrap();
    let take = Take { at, max: capability.max_calls().unwrap() };
    assert_eq!(two.counted(&take).map(|(block, capability)| (block.id, capability)), Some((two.blocks[2], 1)));
}

#[test]
fn a_token_is_valid_within_its_times_and_the_skew() {
    let issuer = issuer();
    let timed = Grant { not_before: Some(at(NOW)), expires: at(NOW + 100), ..grant() };
    let token = issuer.mint(&timed).unwrap();
    let token = token.as_str();
    let code = |skew: u64, time: u64| {
        let verifier = verifier(&issuer).with_skew(Duration::from_secs(skew));
        verifier.verify(token, &tenant("acme"), at(time)).map_or_else(|refused| refused.code().as_str(), |_| "ok")
    };
    for (skew, time, wanted) in [
        (0, NOW - 1, "token_not_yet_valid"),
        (0, NOW, "ok"),
        (0, NOW + 99, "ok"),
        (0, NOW + 100, "token_expired"),
        (30, NOW - 31, "token_not_yet_valid"),
        (30, NOW - 30, "ok"),
        (30, NOW + 129, "ok"),
        (30, NOW + 130, "token_expired"),
        (0, 0, "token_not_yet_valid"),
        // No more than the longest skew can be set.
        (1_000_000, NOW + 99 + LONGEST_SKEW.as_secs(), "ok"),
        (1_000_000, NOW + 100 + LONGEST_SKEW.as_secs(), "token_expired"),
    ] {
        assert_eq!(code(skew, time), wanted, "skew {skew}, time {time}");
    }
    let plain = |time| verifier(&issuer).verify(token, &tenant("acme"), at(time)).is_ok();
    assert!(plain(NOW + 99 + SKEW.as_secs()) && !plain(NOW + 100 + SKEW.as_secs()), "the skew without a setting");
    // Nanoseconds are given up.
    let grant = Grant { expires: at(NOW + 100) + Duration::from_nanos(999_999_999), ..timed };
    let token = issuer.mint(&grant).unwrap();
    assert_eq!(verify(&issuer, token.as_str()).unwrap().expires, at(NOW + 100));
}

#[test]
fn a_token_is_of_one_tenant() {
    let issuer = issuer();
    let token = issuer.mint(&grant()).unwrap();
    let narrowed = attenuate(token.as_str(), &narrowing("[]")).unwrap();
    for token in [token, narrowed] {
        let refused = verifier(&issuer).verify(token.as_str(), &tenant("globex"), at(NOW)).unwrap_err();
        assert_eq!(refused.code().as_str(), "token_foreign_tenant");
        assert!(!refused.to_string().contains("acme"), "{refused}");
    }
}

#[test]
fn who_revokes_a_token_revokes_what_was_made_from_it() {
    let issuer = issuer();
    let parent = issuer.mint(&grant()).unwrap();
    let [child, sibling] = [10, 20]
        .map(|most| attenuate(parent.as_str(), &Narrowing { calls: calls(most), ..Narrowing::default() }).unwrap());
    let grandchild = attenuate(child.as_str(), &narrowing("[]")).unwrap();
    let valid = |list: &str| {
        let verifier = Verifier::new(keys(&issuer), RevocationList::read(list).unwrap());
        [&parent, &child, &sibling, &grandchild].map(|token| {
            match verifier.verify(token.as_str(), &tenant("acme"), at(NOW)) {
                Ok(_) => true,
                Err(refused) => {
                    assert_eq!(refused.code().as_str(), "token_revoked");
                    false
                }
            }
        })
    };
    let id = |token: &thermae_tokens::Token| *revocation_ids(token.as_str()).unwrap().last().unwrap();
    assert_eq!(valid("# nothing\n\n"), [true; 4]);
    assert_eq!(valid(&format!("# a note\n  {}\r\n", id(&parent))), [false; 4]);
    assert_eq!(valid(&id(&child).to_string().to_uppercase()), [true, false, true, false]);
    assert_eq!(valid(&id(&grandchild).to_string()), [true, true, true, false]);
    // The other reasons come later, and say nothing of a revoked token.
    let verifier = Verifier::new(keys(&issuer), [id(&parent)].into_iter().collect());
    let refused = verifier.verify(child.as_str(), &tenant("globex"), at(NOW + 1_000_000)).unwrap_err();
    assert_eq!(refused.code().as_str(), "token_revoked");
}

#[test]
fn a_list_of_revocations_that_is_damaged_is_not_used() {
    let good = "ab".repeat(64);
    assert!(RevocationList::read(&good).unwrap().has(&good.parse::<RevocationId>().unwrap()));
    for bad in ["x", &good[1..], &format!("{good}0"), &format!("{good} {good}"), "0x00"] {
        let error = RevocationList::read(&format!("{good}\n\n{bad}\n")).unwrap_err();
        assert_eq!(error.line, 3, "{bad}");
    }
}

#[test]
fn a_key_is_rotated_without_a_gap() {
    let [old, new] = [1, 2].map(|id| Issuer::new(id, SecretKey::generate().unwrap()));
    let both = [&old, &new].map(|issuer| (issuer.id(), issuer.public_key()));
    let [from_old, from_new] = [&old, &new].map(|issuer| issuer.mint(&grant()).unwrap());
    let valid = |keys: &[(u32, PublicKey)]| {
        let verifier = Verifier::new(keys.iter().copied().collect(), RevocationList::default());
        [&from_old, &from_new].map(|token| {
            verifier
                .verify(token.as_str(), &tenant("acme"), at(NOW))
                .map_or_else(|refused| refused.code().as_str(), |_| "ok")
        })
    };
    assert_eq!(valid(&both[..1]), ["ok", "token_unknown_key"]);
    assert_eq!(valid(&both), ["ok", "ok"]);
    assert_eq!(valid(&both[1..]), ["token_unknown_key", "ok"]);
}

#[test]
fn what_would_be_no_token_is_not_written() {
    let issuer = issuer();
    let mint = |change: &dyn Fn(&mut Grant)| {
        let mut grant = grant();
        change(&mut grant);
        issuer.mint(&grant).unwrap_err()
    };
    assert!(matches!(mint(&|grant| grant.not_before = Some(grant.expires)), Unwritten::NeverValid));
    assert!(matches!(mint(&|grant| grant.expires = at(1 << 40)), Unwritten::Time));
    assert!(matches!(mint(&|grant| grant.expires = at(0) - Duration::from_secs(1)), Unwritten::Time));
    let schema = |bytes: usize| format!(r#"[{{"pattern": "t", "arguments": {{"title": "{}"}}}}]"#, "x".repeat(bytes));
    assert!(matches!(mint(&|grant| grant.set = set(&schema(LARGEST_TOKEN - 100))), Unwritten::TooLarge(_)));
    let token = issuer.mint(&Grant { not_before: Some(at(NOW)), ..grant() }).unwrap();
    let narrow = |narrowing: &Narrowing| attenuate(token.as_str(), narrowing).unwrap_err();
    let expires = |time| Narrowing { expires: Some(at(time)), ..Narrowing::default() };
    assert!(matches!(narrow(&Narrowing::default()), Unwritten::Nothing));
    assert!(matches!(narrow(&expires(NOW + 3601)), Unwritten::LaterExpiry));
    assert!(matches!(narrow(&expires(NOW)), Unwritten::NeverValid));
    assert!(attenuate(token.as_str(), &expires(NOW + 3600)).is_ok());
    assert!(matches!(narrow(&narrowing(&schema(LARGEST_TOKEN - 200))), Unwritten::TooLarge(_)));
    assert!(matches!(attenuate("", &narrowing("[]")), Err(Unwritten::Malformed(_))));
    let sealed = biscuit_auth::UnverifiedBiscuit::from_base64(token.as_str()).unwrap().seal().unwrap();
    let sealed = sealed.to_base64().unwrap();
    assert!(verify(&issuer, &sealed).is_ok());
    assert!(matches!(attenuate(&sealed, &narrowing("[]")), Err(Unwritten::Sealed)));
}

#[test]
fn a_token_has_so_many_bytes_and_blocks() {
    let issuer = issuer();
    let mut token: String = issuer.mint(&grant()).unwrap().into();
    for _ in 1..MOST_BLOCKS {
        token = attenuate(&token, &narrowing(r#"[{"pattern": "transfer"}]"#)).unwrap().into();
    }
    assert_eq!(verify(&issuer, &token).unwrap().rules.sets().len(), MOST_BLOCKS);
    assert!(matches!(attenuate(&token, &narrowing("[]")), Err(Unwritten::TooManyBlocks(17))));
    let more = biscuit_auth::UnverifiedBiscuit::from_base64(&token).unwrap();
    let more = more.append(biscuit_auth::BlockBuilder::new().fact("thermae(1)").unwrap()).unwrap();
    assert_eq!(verify(&issuer, &more.to_base64().unwrap()).unwrap_err().code().as_str(), "token_too_many_blocks");
    let large = "A".repeat(LARGEST_TOKEN + 4);
    assert_eq!(verify(&issuer, &large).unwrap_err().code().as_str(), "token_too_large");
    assert_eq!(verify(&issuer, &large[4..]).unwrap_err().code().as_str(), "token_malformed");
}

#[test]
fn keys_are_kept_in_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let key = SecretKey::generate().unwrap();
    key.write_new(path("issuer.pem")).unwrap();
    let mode = std::fs::metadata(path("issuer.pem")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(SecretKey::read(path("issuer.pem")).unwrap().public(), key.public());
    let there = SecretKey::generate().unwrap().write_new(path("issuer.pem")).unwrap_err();
    assert!(matches!(there, KeyFileError::Io { .. }), "{there}");
    for mode in [0o640, 0o604, 0o620, 0o602] {
        std::fs::set_permissions(path("issuer.pem"), PermissionsExt::from_mode(mode)).unwrap();
        let error = SecretKey::read(path("issuer.pem")).unwrap_err();
        assert!(error.to_string().contains(&format!("(mode {mode:o}): chmod 600 it")), "{error}");
    }
    let public = path("public");
    std::fs::create_dir(&public).unwrap();
    for id in [0, 4_294_967_295_u32] {
        key.public().write_new(public.join(format!("{id}.pem"))).unwrap();
    }
    std::fs::write(public.join(".hidden"), "").unwrap();
    let keys = PublicKeys::read(&public).unwrap();
    assert_eq!((keys.get(0), keys.get(u32::MAX), keys.get(1)), (Some(&key.public()), Some(&key.public()), None));
    for (name, text) in [("1.pem", "no key"), ("2.pem", &*key.to_pem()), ("01.pem", ""), ("x", ""), ("-1.pem", "")] {
        std::fs::write(public.join(name), text).unwrap();
        let error = PublicKeys::read(&public).unwrap_err().to_string();
        assert!(error.contains(name) && !error.contains("PRIVATE"), "{error}");
        std::fs::remove_file(public.join(name)).unwrap();
    }
    assert!(PublicKeys::read(path("missing")).is_err());
}

/// Keys and a token from elsewhere: what OpenSSL 3 wrote is read, and is one pair.
#[test]
fn the_keys_of_openssl_are_keys() {
    const SECRET: &str = "-----BEGIN PRIVATE KEY-----\n\
        MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n";
    const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\n\
        MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n-----END PUBLIC KEY-----\n";
    let secret = SecretKey::from_pem(SECRET).unwrap();
    assert_eq!(secret.public(), PublicKey::from_pem(PUBLIC).unwrap());
    assert_eq!(secret.public().to_pem(), PUBLIC);
    assert!(SecretKey::from_pem(PUBLIC).is_err() && PublicKey::from_pem(SECRET).is_err());
    assert!(SecretKey::from_pem("").is_err());
    let issuer = Issuer::new(KEY, secret);
    assert!(verify(&issuer, issuer.mint(&grant()).unwrap().as_str()).is_ok());
}
