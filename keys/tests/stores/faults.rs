//! Stores that are away.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thermae_keys::{Keys, Limits, NewKey, Query, Scope, Sqlite};

use crate::proxy::{Proxy, Way};
use crate::support::{NOW, Place, id, plain, tenant};

/// A limit that is long enough for a working server, and short enough to wait for.
const LIMIT: Duration = Duration::from_secs(3);

fn new_key() -> NewKey {
    let scopes = [Scope::Run].into_iter().collect();
    NewKey { name: "n".to_owned(), tenant: tenant("acme"), scopes, limits: Limits::default(), expires_ms: None }
}

/// Every operation fails, none allows anything, and none takes for ever.
async fn nothing_works(keys: &Keys, text: &str) {
    let begun = Instant::now();
    let denied = keys.authenticate(text, NOW).await.unwrap_err();
    assert_eq!(denied.code(), "keys_unavailable", "{denied}");
    assert!(keys.create(&new_key(), NOW).await.is_err());
    assert!(keys.list(&Query::default()).await.is_err());
    assert!(keys.revoke(&id(1), None, NOW).await.is_err());
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn postgres_that_is_cut_off_or_silent_allows_nothing_and_comes_back() {
    let direct = Place::database().await;
    let Place::Database(url) = &direct else { unreachable!() };
    let (before, after) = url.split_once("127.0.0.1:").expect("the tests' server is on loopback");
    let (port, database) = after.split_once('/').unwrap();
    let proxy = Proxy::to(format!("127.0.0.1:{port}").parse().unwrap()).await;
    let place = Place::Database(format!("{before}127.0.0.1:{}/{database}", proxy.port));
    let keys = Keys::with_cache(place.try_open(LIMIT).await.unwrap(), Duration::ZERO);
    let text = keys.create(&new_key(), NOW).await.unwrap().text;
    for way in [Way::Cut, Way::Silent] {
        assert!(keys.authenticate(text.as_str(), NOW).await.is_ok());
        proxy.set(way);
        nothing_works(&keys, text.as_str()).await;
        proxy.set(Way::Open);
        // The pool may first have to find out that its connections are gone.
        let mut back = false;
        for _ in 0..10 {
            back = back || keys.authenticate(text.as_str(), NOW).await.is_ok();
        }
        assert!(back, "the store did not come back after {way:?}");
    }
    proxy.set(Way::Cut);
    assert!(place.try_open(LIMIT).await.is_err(), "a store that is away was opened");
}

#[tokio::test]
async fn a_file_that_is_damaged_allows_nothing() {
    let place = Place::file();
    let keys = Keys::with_cache(place.open().await, Duration::ZERO);
    let text = keys.create(&new_key(), NOW).await.unwrap().text;
    let Place::File(folder) = &place else { unreachable!() };
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let path = file.unwrap().path();
        let length = std::fs::metadata(&path).unwrap().len() as usize;
        // In place: SQLite has a part of it in memory, where a shorter file would be a signal.
        let mut file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all(&vec![0x5a; length]).unwrap();
    }
    nothing_works(&keys, text.as_str()).await;
    assert!(place.try_open(LIMIT).await.is_err(), "a damaged file was opened");
}

#[tokio::test]
async fn a_file_that_another_process_has_locked_is_away() {
    let place = Place::file();
    let store = place.try_open(LIMIT).await.unwrap();
    let Place::File(folder) = &place else { unreachable!() };
    let url = format!("sqlite://{}", folder.path().join("keys.db").display());
    let mut other = <sqlx::SqliteConnection as sqlx::Connection>::connect(&url).await.unwrap();
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    assert!(store.insert(&plain(1, "acme")).await.is_err());
    assert!(store.revoke(&id(1), None, NOW).await.is_err());
    sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
    store.insert(&plain(1, "acme")).await.unwrap();
}

#[tokio::test]
async fn a_place_that_is_none_is_no_store() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Sqlite::open(folder.path().join("missing/keys.db")).await.is_err());
    assert!(Sqlite::open(folder.path()).await.is_err());
    for url in ["", "keys", "mysql://localhost/keys", "postgres://127.0.0.1:1/keys"] {
        assert!(thermae_keys::Postgres::open_with(url, Duration::from_secs(1)).await.is_err(), "{url}");
    }
}

/// What is done to the file of a store: another one is put in its place, it goes, or it goes and another one comes.
const REPLACED: [fn(&Path, &Path); 3] = [
    |backup, file| std::fs::rename(backup, file).unwrap(),
    |_, file| std::fs::remove_file(file).unwrap(),
    |backup, file| {
        std::fs::remove_file(file).unwrap();
        std::fs::copy(backup, file).unwrap();
    },
];

#[tokio::test]
async fn a_file_that_is_replaced_allows_nothing_until_it_is_opened_again() {
    for replace in REPLACED {
        let place = Place::file();
        let Place::File(folder) = &place else { unreachable!() };
        let [file, backup, was] = ["keys.db", "backup", "was"].map(|name| folder.path().join(name));
        let keys = Keys::with_cache(place.try_open(LIMIT).await.unwrap(), Duration::ZERO);
        let created = keys.create(&new_key(), NOW).await.unwrap();
        assert!(keys.authenticate(created.text.as_str(), NOW).await.is_ok());
        std::fs::copy(&file, &backup).unwrap();
        std::fs::hard_link(&file, &was).unwrap();
        replace(&backup, &file);
        nothing_works(&keys, created.text.as_str()).await;
        // Not even if the file comes back: somebody may have opened the other one meanwhile.
        std::fs::rename(&was, &file).unwrap();
        nothing_works(&keys, created.text.as_str()).await;

        let again = Keys::with_cache(Arc::new(Sqlite::reopen(&file).await.unwrap()), Duration::ZERO);
        assert!(again.authenticate(created.text.as_str(), NOW).await.is_ok());
        let missing = Sqlite::reopen(folder.path().join("missing")).await;
        assert!(missing.is_err() && !folder.path().join("missing").exists(), "it was made");
    }
}

#[tokio::test]
async fn a_backup_that_is_written_into_the_file_counts_at_once() {
    let place = Place::file();
    let Place::File(folder) = &place else { unreachable!() };
    let [file, backup] = ["keys.db", "backup"].map(|name| folder.path().join(name));
    let keys = Keys::with_cache(place.open().await, Duration::ZERO);
    let created = keys.create(&new_key(), NOW).await.unwrap();
    // The file alone is the store, so a copy of it is whole.
    std::fs::copy(&file, &backup).unwrap();
    let later = keys.create(&new_key(), NOW).await.unwrap();
    std::fs::copy(&backup, &file).unwrap();
    assert!(keys.authenticate(created.text.as_str(), NOW).await.is_ok());
    assert_eq!(keys.authenticate(later.text.as_str(), NOW).await.unwrap_err().code(), "key_unknown");
    place.execute("UPDATE api_keys SET revoked_ms = 1").await;
    assert_eq!(keys.authenticate(created.text.as_str(), NOW).await.unwrap_err().code(), "key_revoked");
}
