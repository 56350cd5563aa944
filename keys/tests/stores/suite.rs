//! What must hold for every kind of store.

use std::collections::BTreeSet;
use std::time::Duration;

use thermae_keys::{Key, Keys, Limits, NewKey, Query, Scope, StoreError, Stored};

use crate::support::{NOW, Place, entry, id, plain, tenant};

fn new_key() -> NewKey {
    NewKey {
        name: "a name".to_owned(),
        tenant: tenant("acme"),
        scopes: [Scope::Run].into_iter().collect(),
        limits: Limits::default(),
        expires_ms: None,
    }
}

pub async fn an_entry_is_found_as_it_was_written(place: Place) {
    let store = place.open().await;
    let odd = "Robert'); DROP TABLE api_keys;-- \" % _ \\ $1 ?1 ä €😀";
    let named = Stored { key: Key { name: odd.to_owned(), ..plain(3, "acme").key }, ..plain(3, "acme") };
    let all = [entry(1, "acme"), plain(2, "globex"), named];
    for entry in &all {
        store.insert(entry).await.unwrap();
    }
    for entry in all {
        let found = store.find(&entry.key.id).await.unwrap().unwrap();
        assert_eq!(found.key, entry.key);
        assert!(found.hash.is(&entry.hash));
    }
    assert!(store.find(&id(4)).await.unwrap().is_none());
}

pub async fn one_id_has_one_entry(place: Place) {
    let store = place.open().await;
    store.insert(&plain(1, "acme")).await.unwrap();
    assert!(store.insert(&plain(1, "globex")).await.is_err());
    assert_eq!(store.find(&id(1)).await.unwrap().unwrap().key.tenant, tenant("acme"));
}

pub async fn a_list_goes_on_where_it_ended(place: Place) {
    let store = place.open().await;
    let page = async |query: &Query| store.list(query).await.unwrap();
    let none = page(&Query::default()).await;
    assert_eq!((none.keys.len(), none.next), (0, None));
    let mut order: Vec<Key> = Vec::new();
    for number in 0..40 {
        let mut entry = plain(number * 7 % 40, if number % 4 == 0 { "globex" } else { "acme" });
        // Several keys are made in one millisecond.
        entry.key.created_ms = NOW + u64::from(number / 3);
        store.insert(&entry).await.unwrap();
        order.push(entry.key);
    }
    order.sort_by_key(|key| (key.created_ms, key.id.clone()));
    for of in [None, Some(tenant("acme")), Some(tenant("initech"))] {
        let wanted: Vec<_> = order.iter().filter(|key| of.as_ref().is_none_or(|of| *of == key.tenant)).collect();
        for most in [1, 3, 10, 40, 200] {
            let mut listed = Vec::new();
            let mut after = None;
            loop {
                let got = page(&Query { tenant: of.clone(), after, most }).await;
                assert!(got.keys.len() <= usize::from(most));
                listed.extend(got.keys);
                // As a client has it: only the text.
                after = got.next.map(|cursor| cursor.to_string().parse().unwrap());
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(listed.iter().collect::<Vec<_>>(), wanted, "{of:?}, {most} at a time");
        }
    }
    // What comes and goes between two pages moves nothing.
    let first = page(&Query { most: 10, ..Query::default() }).await;
    store.revoke(&order[9].id, None, NOW).await.unwrap();
    let mut late = plain(99, "acme");
    late.key.created_ms = NOW + 1_000_000;
    store.insert(&late).await.unwrap();
    let rest = page(&Query { after: first.next, ..Query::default() }).await;
    assert_eq!((rest.keys.first(), rest.keys.last(), rest.keys.len()), (Some(&order[10]), Some(&late.key), 31));
    // A page is never empty and never too large.
    assert_eq!(page(&Query { most: 0, ..Query::default() }).await.keys.len(), 1);
    assert_eq!(page(&Query { most: u16::MAX, ..Query::default() }).await.keys.len(), 41);
}

pub async fn a_key_is_revoked_once_and_only_by_its_tenant(place: Place) {
    let store = place.open().await;
    store.insert(&plain(1, "acme")).await.unwrap();
    let revoked = async || store.find(&id(1)).await.unwrap().unwrap().key.revoked_ms;
    assert_eq!(store.revoke(&id(1), Some(&tenant("globex")), NOW).await.unwrap(), None);
    assert_eq!(store.revoke(&id(2), None, NOW).await.unwrap(), None);
    assert_eq!(revoked().await, None);
    let key = store.revoke(&id(1), Some(&tenant("acme")), NOW + 5).await.unwrap().unwrap();
    assert_eq!((key.revoked_ms, key.id.clone()), (Some(NOW + 5), id(1)));
    assert_eq!(store.revoke(&id(1), None, NOW + 9).await.unwrap(), Some(key));
    assert_eq!(revoked().await, Some(NOW + 5));
}

pub async fn a_use_is_noted_unless_a_late_one_is(place: Place) {
    let store = place.open().await;
    store.insert(&plain(1, "acme")).await.unwrap();
    let used = async || store.find(&id(1)).await.unwrap().unwrap().key.last_used_ms;
    for (now, unless_since, wanted) in [(100, 100, 100), (150, 100, 100), (200, 101, 200), (300, 0, 200)] {
        store.touch(&id(1), now, unless_since).await.unwrap();
        assert_eq!(used().await, Some(wanted), "{now}");
    }
    store.touch(&id(2), 1, 1).await.unwrap();
}

pub async fn gateways_share_what_they_know(place: Place) {
    let [here, there] = [place.open().await, place.open().await].map(|store| Keys::with_cache(store, Duration::ZERO));
    let made = here.create(&new_key(), NOW).await.unwrap();
    let text = made.text.as_str();
    assert_eq!(*there.authenticate(text, NOW).await.unwrap(), made.key);
    assert_eq!(there.list(&Query::default()).await.unwrap().keys[0].last_used_ms, Some(NOW));
    there.revoke(&made.key.id, Some(&tenant("acme")), NOW).await.unwrap().unwrap();
    assert_eq!(here.authenticate(text, NOW).await.unwrap_err().code(), "key_revoked");
    assert_eq!(here.list(&Query::default()).await.unwrap().keys[0].revoked_ms, Some(NOW));
}

pub async fn many_at_once_lose_nothing(place: Place) {
    let stores = [place.open().await, place.open().await];
    let mut all = tokio::task::JoinSet::new();
    for number in 0..40_u32 {
        let store = stores[number as usize % 2].clone();
        all.spawn(async move {
            store.insert(&plain(number, "acme")).await.unwrap();
            store.touch(&id(number), NOW, NOW).await.unwrap();
            store.revoke(&id(number), None, NOW).await.unwrap().unwrap();
        });
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
    let keys = stores[0].list(&Query::default()).await.unwrap().keys;
    assert_eq!(keys.iter().map(|key| key.id.clone()).collect::<BTreeSet<_>>().len(), 40);
    assert!(keys.iter().all(|key| (key.revoked_ms, key.last_used_ms) == (Some(NOW), Some(NOW))));
}

pub async fn the_tables_are_made_once(place: Place) {
    let first = place.open().await;
    first.insert(&plain(1, "acme")).await.unwrap();
    let again = place.open().await;
    assert!(again.find(&id(1)).await.unwrap().is_some());
}

pub async fn a_newer_release_leaves_the_store_usable(place: Place) {
    let before = place.open().await;
    before.insert(&plain(1, "acme")).await.unwrap();
    place
        .execute(
            "ALTER TABLE api_keys ADD COLUMN more TEXT; \
             INSERT INTO thermae_keys_migrations (version, description, success, checksum, execution_time) \
             SELECT 1000, description, success, checksum, execution_time FROM thermae_keys_migrations; \
             UPDATE api_keys SET scopes = 'run everything'",
        )
        .await;
    for store in [before, place.open().await] {
        let scopes = store.find(&id(1)).await.unwrap().unwrap().key.scopes;
        assert_eq!(scopes.to_string(), "run", "a scope that this release does not know gives nothing");
    }
}

pub async fn a_damaged_entry_is_an_error(place: Place) {
    let store = place.open().await;
    let keys = Keys::with_cache(store.clone(), Duration::ZERO);
    let made = keys.create(&new_key(), NOW).await.unwrap();
    for (field, bad, good) in [
        ("hash", "'00'", format!("'{}'", "0".repeat(64))),
        ("tenant", "'acme.x'", "'acme'".to_owned()),
        ("created_ms", "-1", "1".to_owned()),
        ("expires_ms", "-1", "NULL".to_owned()),
        ("revoked_ms", "-1", "NULL".to_owned()),
        ("last_used_ms", "-1", "NULL".to_owned()),
        ("runs_at_once", "0", "NULL".to_owned()),
        ("requests_per_minute", "4294967296", "NULL".to_owned()),
    ] {
        place.execute(&format!("UPDATE api_keys SET {field} = {bad}")).await;
        let error = store.find(&made.key.id).await.unwrap_err();
        assert!(matches!(error, StoreError::Damaged { what, .. } if what == field), "{field}: {error}");
        let denied = keys.authenticate(made.text.as_str(), NOW).await.unwrap_err();
        assert_eq!(denied.code(), "keys_unavailable", "{field}");
        assert!(store.list(&Query::default()).await.is_err(), "{field}");
        place.execute(&format!("UPDATE api_keys SET {field} = {good}")).await;
        assert!(store.find(&made.key.id).await.is_ok(), "{field}");
    }
    assert_eq!(keys.authenticate(made.text.as_str(), NOW).await.unwrap_err().code(), "key_unknown");
}

pub async fn no_secret_is_stored(place: Place) {
    let store = place.open().await;
    let made = Keys::new(store.clone()).create(&new_key(), NOW).await.unwrap();
    let secret = made.text.as_str().rsplit('_').next().unwrap().to_owned();
    let stored = store.find(&made.key.id).await.unwrap().unwrap();
    let hash = stored.hash.as_bytes();
    assert!(!hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>().contains(&secret[..16]));
    assert!(!format!("{stored:?} {made:?}").contains(&secret[..16]));
    if let Place::File(folder) = &place {
        for file in std::fs::read_dir(folder.path()).unwrap() {
            let path = file.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            let found = |part: &str| bytes.windows(part.len()).any(|window| window == part.as_bytes());
            assert!(!found(&secret[..16]), "{}", path.display());
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
        }
    }
}
