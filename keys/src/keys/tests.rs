use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;
use proptest::prelude::*;

use super::*;
use crate::{Limits, Scope};

/// A store in memory that can be away, and counts what is asked.
#[derive(Debug, Default)]
struct Memory {
    entries: Mutex<Vec<Stored>>,
    away: AtomicBool,
    finds: AtomicUsize,
    touches: AtomicUsize,
}

impl Memory {
    fn entries(&self) -> Result<MutexGuard<'_, Vec<Stored>>, StoreError> {
        if self.away.load(Ordering::SeqCst) {
            return Err(StoreError::TimedOut(Duration::from_secs(1)));
        }
        Ok(self.entries.lock().unwrap())
    }
}

#[async_trait]
impl Store for Memory {
    async fn insert(&self, entry: &Stored) -> Result<(), StoreError> {
        self.entries()?.push(entry.clone());
        Ok(())
    }

    async fn find(&self, id: &KeyId) -> Result<Option<Stored>, StoreError> {
        self.finds.fetch_add(1, Ordering::SeqCst);
        Ok(self.entries()?.iter().find(|entry| entry.key.id == *id).cloned())
    }

    async fn list(&self, query: &Query) -> Result<Listed, StoreError> {
        Ok(Listed::cut(self.entries()?.iter().map(|entry| entry.key.clone()).collect(), query.size()))
    }

    async fn revoke(&self, id: &KeyId, _: Option<&TenantName>, now_ms: u64) -> Result<Option<Key>, StoreError> {
        let mut entries = self.entries()?;
        let found = entries.iter_mut().find(|entry| entry.key.id == *id);
        Ok(found.map(|entry| {
            entry.key.revoked_ms.get_or_insert(now_ms);
            entry.key.clone()
        }))
    }

    async fn touch(&self, _: &KeyId, _: u64, _: u64) -> Result<(), StoreError> {
        self.touches.fetch_add(1, Ordering::SeqCst);
        self.entries().map(drop)
    }
}

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

thread_local! {
    static PASSED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// A clock that each test sets for itself. Tests run in threads of their own.
fn clock() -> Instant {
    *START + PASSED.get()
}

fn pass(time: Duration) {
    PASSED.set(PASSED.get() + time);
}

const NOW: u64 = 1_800_000_000_000;

fn wanted() -> NewKey {
    NewKey {
        name: "nightly".to_owned(),
        tenant: TenantName::new("acme").unwrap(),
        scopes: [Scope::Run, Scope::Read].into_iter().collect(),
        limits: Limits::default(),
        expires_ms: Some(NOW + 3_600_000),
    }
}

/// Two gateways that share a store.
fn gateways() -> (Arc<Memory>, [Keys; 2]) {
    let store = Arc::new(Memory::default());
    let keys = || Keys::with_clock(store.clone(), CACHE_TTL, clock);
    (store.clone(), [keys(), keys()])
}

async fn code(keys: &Keys, text: &str, now_ms: u64) -> &'static str {
    keys.authenticate(text, now_ms).await.map_or_else(|denied| denied.code(), |_| "ok")
}

#[tokio::test]
async fn a_key_is_whose_it_is_and_nobody_elses() {
    let (_, [keys, _]) = gateways();
    let [one, other] = [keys.create(&wanted(), NOW).await.unwrap(), keys.create(&wanted(), NOW).await.unwrap()];
    assert_eq!(*keys.authenticate(one.text.as_str(), NOW).await.unwrap(), one.key);
    // The id of one and the secret of the other.
    let mixed = format!("{}{}", &one.text.as_str()[..20], &other.text.as_str()[20..]);
    assert_eq!(code(&keys, &mixed, NOW).await, "key_unknown");
    let last = if one.text.as_str().ends_with('0') { '1' } else { '0' };
    let nearly = format!("{}{last}", &one.text.as_str()[..one.text.as_str().len() - 1]);
    assert_eq!(code(&keys, &nearly, NOW).await, "key_unknown");
    assert_eq!(code(&keys, KeyText::generate().unwrap().as_str(), NOW).await, "key_unknown");
    assert_eq!(code(&keys, "", NOW).await, "key_malformed");
    assert_eq!(code(&keys, one.text.as_str(), NOW).await, "ok");
}

#[tokio::test]
async fn a_key_expires_to_the_millisecond_also_in_the_cache() {
    let (_, [keys, _]) = gateways();
    let text = keys.create(&wanted(), NOW).await.unwrap().text;
    assert_eq!(code(&keys, text.as_str(), NOW + 3_599_999).await, "ok");
    assert_eq!(code(&keys, text.as_str(), NOW + 3_600_000).await, "key_expired");
}

#[tokio::test]
async fn a_revocation_takes_effect_here_at_once_and_elsewhere_within_the_time() {
    let (store, [here, there]) = gateways();
    let Created { key, text } = here.create(&wanted(), NOW).await.unwrap();
    let text = text.as_str();
    assert_eq!((code(&here, text, NOW).await, code(&there, text, NOW).await), ("ok", "ok"));
    here.revoke(&key.id, None, NOW).await.unwrap();
    assert_eq!(code(&here, text, NOW).await, "key_revoked");
    pass(CACHE_TTL - Duration::from_nanos(1));
    assert_eq!(code(&there, text, NOW).await, "ok", "the cache is of use");
    assert_eq!(store.finds.load(Ordering::SeqCst), 3);
    pass(Duration::from_nanos(1));
    assert_eq!(code(&there, text, NOW).await, "key_revoked");
}

#[tokio::test]
async fn a_key_that_was_found_is_checked_again_without_its_text() {
    let (store, [here, there]) = gateways();
    let Created { key, text } = here.create(&wanted(), NOW).await.unwrap();
    let code = async |now_ms| there.still_valid(&key.id, now_ms).await.map_or_else(|denied| denied.code(), |()| "ok");
    assert!(there.authenticate(text.as_str(), NOW).await.is_ok());
    assert_eq!((code(NOW).await, code(NOW + 3_600_000).await), ("ok", "key_expired"));
    here.revoke(&key.id, None, NOW).await.unwrap();
    pass(CACHE_TTL);
    assert_eq!(code(NOW).await, "key_revoked");
    pass(CACHE_TTL);
    store.away.store(true, Ordering::SeqCst);
    assert_eq!(code(NOW).await, "keys_unavailable");
    store.away.store(false, Ordering::SeqCst);
    store.entries().unwrap().clear();
    assert_eq!(code(NOW).await, "key_unknown");
    assert_eq!(store.touches.load(Ordering::SeqCst), 1, "only the request is noted");
}

#[tokio::test]
async fn while_the_store_is_away_nothing_is_allowed() {
    let (store, [keys, _]) = gateways();
    let [used, unused] = [keys.create(&wanted(), NOW).await.unwrap(), keys.create(&wanted(), NOW).await.unwrap()];
    assert_eq!(code(&keys, used.text.as_str(), NOW).await, "ok");
    store.away.store(true, Ordering::SeqCst);
    assert_eq!(code(&keys, unused.text.as_str(), NOW).await, "keys_unavailable");
    assert_eq!(code(&keys, KeyText::generate().unwrap().as_str(), NOW).await, "keys_unavailable");
    // What the store said is used for its time, and no longer.
    pass(CACHE_TTL);
    assert_eq!(code(&keys, used.text.as_str(), NOW).await, "keys_unavailable");
    assert!(keys.create(&wanted(), NOW).await.is_err() && keys.list(&Query::default()).await.is_err());
    // A revocation that may not have arrived is an error, and the cache has forgotten the key.
    store.away.store(false, Ordering::SeqCst);
    assert_eq!(code(&keys, used.text.as_str(), NOW).await, "ok");
    store.away.store(true, Ordering::SeqCst);
    assert!(keys.revoke(&used.key.id, None, NOW).await.is_err());
    assert_eq!(code(&keys, used.text.as_str(), NOW).await, "keys_unavailable");
}

#[tokio::test]
async fn the_last_use_is_noted_once_in_a_minute_and_needs_no_store() {
    let (store, [keys, _]) = gateways();
    let text = keys.create(&wanted(), NOW).await.unwrap().text;
    let touches = || store.touches.load(Ordering::SeqCst);
    for (later, wanted) in [(0, 1), (1, 1), (59_999, 1), (60_000, 2), (60_001, 2), (30_000, 2), (120_000, 3)] {
        assert_eq!(code(&keys, text.as_str(), NOW + later).await, "ok");
        assert_eq!(touches(), wanted, "{later} ms later");
    }
    store.away.store(true, Ordering::SeqCst);
    assert_eq!(code(&keys, text.as_str(), NOW + 240_000).await, "ok");
    assert_eq!(touches(), 4);
}

#[tokio::test]
async fn no_more_entries_are_kept_than_allowed() {
    let (store, [keys, _]) = gateways();
    let first = keys.create(&wanted(), NOW).await.unwrap();
    let entry = store.find(&first.key.id).await.unwrap().unwrap();
    let cached = |number: u32| {
        let mut entry = entry.clone();
        entry.key.id = format!("{number:016x}").parse().unwrap();
        keys.cache.put(&Cached::new(entry, clock()));
        keys.cache.len()
    };
    let most = (0..25_000).map(cached).max();
    assert_eq!(most, Some(10_000));
    pass(CACHE_TTL);
    for number in 25_000..36_000 {
        cached(number);
    }
    assert!(keys.cache.len() <= 10_000);
}

#[tokio::test]
async fn an_answer_that_is_older_than_the_one_that_is_kept_is_not_kept() {
    let (store, [keys, _]) = gateways();
    let Created { key, text } = keys.create(&wanted(), NOW).await.unwrap();
    let old = Cached::new(store.find(&key.id).await.unwrap().unwrap(), clock());
    store.revoke(&key.id, None, NOW).await.unwrap();
    pass(Duration::from_secs(1));
    assert_eq!(code(&keys, text.as_str(), NOW).await, "key_revoked");
    keys.cache.put(&old);
    assert_eq!(code(&keys, text.as_str(), NOW).await, "key_revoked");
}

#[tokio::test]
async fn a_key_that_breaks_a_rule_is_not_made() {
    let (store, [keys, _]) = gateways();
    let create = async |change: &dyn Fn(&mut NewKey)| {
        let mut new = wanted();
        change(&mut new);
        keys.create(&new, NOW).await.map(|created| created.key)
    };
    for name in ["", "a\nb", "\u{7f}", &"x".repeat(101)] {
        assert!(
            matches!(create(&|new: &mut NewKey| name.clone_into(&mut new.name)).await, Err(Uncreated::Name)),
            "{name:?}"
        );
    }
    assert!(matches!(create(&|new: &mut NewKey| new.scopes = crate::Scopes::default()).await, Err(Uncreated::NoScope)));
    for end in [0, NOW, u64::MAX] {
        assert!(
            matches!(create(&|new: &mut NewKey| new.expires_ms = Some(end)).await, Err(Uncreated::Expired)),
            "{end}"
        );
    }
    assert!(store.entries().unwrap().is_empty());
    assert!(create(&|new: &mut NewKey| "ä".repeat(100).clone_into(&mut new.name)).await.is_ok());
    assert_eq!(create(&|new: &mut NewKey| new.expires_ms = None).await.unwrap().expires_ms, None);
}

proptest! {
    #[test]
    fn hostile_text_is_no_key(text in thermae_testkit::hostile::word()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (store, [keys, _]) = gateways();
        prop_assert_eq!(runtime.block_on(code(&keys, &text, NOW)), "key_malformed");
        prop_assert_eq!(store.finds.load(Ordering::SeqCst), 0);
    }
}
