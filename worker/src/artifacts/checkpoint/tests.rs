use std::sync::atomic::{AtomicUsize, Ordering};

use thermae_testkit::bucket::Bucket;

use super::super::ArtifactOptions;
use super::*;

const HOUR: Duration = Duration::from_secs(3600);

fn tenant(name: &str) -> TenantName {
    TenantName::new(name).unwrap()
}

fn name(name: &str) -> SessionName {
    SessionName::new(name).unwrap()
}

fn in_folder(folder: &std::path::Path) -> Artifacts {
    let store = Some(format!("file://{}", folder.display()));
    Artifacts::open(&ArtifactOptions { store, ..Default::default() }, None).unwrap()
}

/// Stores a checkpoint with these chunks.
async fn put(artifacts: &Artifacts, session: &str, life: u64, ttl: Duration, chunks: &[&'static str]) -> Manifest {
    let (acme, name) = (tenant("acme"), name(session));
    let mut manifest = Manifest::new(name.clone(), SystemTime::now() + ttl);
    for chunk in chunks {
        let bytes = Bytes::from_static(chunk.as_bytes());
        let digest = gather::digest(bytes.clone()).await;
        manifest.chunks.push(artifacts.put_chunk(&acme, &name, life, bytes, digest).await.unwrap());
    }
    artifacts.put_manifest(&acme, life, &manifest).await.unwrap();
    manifest
}

/// The chunks of a session's checkpoint.
async fn found(artifacts: &Artifacts, of: &str, session: &str) -> Option<Vec<Bytes>> {
    let (tenant, name) = (tenant(of), name(session));
    let lives = artifacts.lives(&tenant, &name).await.unwrap();
    let found = artifacts.checkpoint(&tenant, &name, &lives).await.unwrap()?;
    Some(artifacts.chunks(&tenant, &found).await.unwrap())
}

fn files(folder: &std::path::Path) -> usize {
    let mut count = 0;
    let mut left = vec![folder.to_owned()];
    while let Some(at) = left.pop() {
        for entry in std::fs::read_dir(at).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() { left.push(entry.path()) } else { count += 1 }
        }
    }
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn the_highest_life_counts_whatever_is_stored_last() {
    let (folder, bucket) = (tempfile::tempdir().unwrap(), Bucket::start().unwrap());
    let in_bucket = Artifacts::open(&super::super::tests::in_bucket(&bucket), None).unwrap();
    for artifacts in [in_folder(folder.path()), in_bucket] {
        assert_eq!(found(&artifacts, "acme", "s").await, None);
        put(&artifacts, "s", 7, HOUR, &["old"]).await;
        assert_eq!(found(&artifacts, "acme", "s").await.unwrap(), ["old"]);
        put(&artifacts, "s", 10, HOUR, &["new", "and more"]).await;
        put(&artifacts, "s", 9, HOUR, &["late"]).await;
        assert_eq!(found(&artifacts, "acme", "s").await.unwrap(), ["new", "and more"]);
        assert_eq!(artifacts.lives(&tenant("acme"), &name("s")).await.unwrap(), [10, 9, 7]);
        assert_eq!(found(&artifacts, "globex", "s").await, None, "of another tenant");
        artifacts.forget_lives(&tenant("acme"), &name("s"), &[10, 9, 7]).await.unwrap();
        assert_eq!(found(&artifacts, "acme", "s").await, None);
        assert_eq!(artifacts.lives(&tenant("acme"), &name("s")).await.unwrap(), [0; 0]);
    }
    assert_eq!(files(folder.path()), 0);
}

#[tokio::test]
async fn an_expired_or_damaged_checkpoint_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let artifacts = in_folder(folder.path());
    put(&artifacts, "s", 1, HOUR, &["old"]).await;
    put(&artifacts, "s", 2, Duration::ZERO, &["expired"]).await;
    assert_eq!(found(&artifacts, "acme", "s").await, None, "the last one has expired, and none before it counts");

    let manifest = put(&artifacts, "d", 1, HOUR, &["whole"]).await;
    let (acme, d) = (tenant("acme"), name("d"));
    artifacts.put(&acme, &key(&d, 1, &manifest.chunks[0].id), "other".into()).await.unwrap();
    let read = artifacts.checkpoint(&acme, &d, &[1]).await.unwrap().unwrap();
    assert!(matches!(artifacts.chunks(&acme, &read).await, Err(Error::Damaged(_))));
    artifacts.put(&acme, &key(&d, 1, MANIFEST), "{}".into()).await.unwrap();
    assert!(matches!(artifacts.checkpoint(&acme, &d, &[1]).await, Err(Error::Manifest)));
    // The manifest of another session is not taken for this one's.
    let foreign = serde_json::to_vec(&Manifest::new(name("other"), SystemTime::now() + HOUR)).unwrap();
    artifacts.put(&acme, &key(&d, 1, MANIFEST), foreign.into()).await.unwrap();
    assert!(matches!(artifacts.checkpoint(&acme, &d, &[1]).await, Err(Error::Manifest)));
}

#[tokio::test]
async fn no_content_that_a_tenant_stores_becomes_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let artifacts = in_folder(folder.path());
    let manifest = serde_json::to_vec(&Manifest::new(name("s"), SystemTime::now() + HOUR)).unwrap();
    // The store chooses the name, which is a digest.
    artifacts.keep(&tenant("acme"), manifest.into()).await.unwrap();
    assert_eq!(found(&artifacts, "acme", "s").await, None);
    for up in ["../acme/checkpoints", "..", "checkpoints/../../globex"] {
        assert!(artifacts.get(&tenant("globex"), up, 100).await.is_err(), "{up}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_removes_what_has_expired_and_what_nobody_names() {
    let (folder, bucket) = (tempfile::tempdir().unwrap(), Bucket::start().unwrap());
    let in_bucket = Artifacts::open(&super::super::tests::in_bucket(&bucket), None).unwrap();
    for artifacts in [in_folder(folder.path()), in_bucket] {
        let acme = tenant("acme");
        put(&artifacts, "lasts", 5, 10 * HOUR, &["a", "b"]).await;
        put(&artifacts, "lasts", 4, 10 * HOUR, &["superseded"]).await;
        artifacts.put_chunk(&acme, &name("lasts"), 5, "no longer named".into(), "x".into()).await.unwrap();
        artifacts.put_chunk(&acme, &name("lasts"), 6, "being stored".into(), "x".into()).await.unwrap();
        put(&artifacts, "expires", 1, HOUR, &["c"]).await;
        artifacts.put(&acme, &key(&name("newer"), 1, MANIFEST), "of a later release".into()).await.unwrap();
        let count = async || artifacts.0.store.list(None).try_collect::<Vec<_>>().await.unwrap().len();
        let (removed, all) = (AtomicUsize::new(0), count().await);
        let sweep = async |later: Duration| {
            let now = SystemTime::now() + later;
            let count_it = || {
                removed.fetch_add(1, Ordering::Relaxed);
            };
            sweep(&artifacts, &acme, now, count_it).await.unwrap();
            (removed.swap(0, Ordering::Relaxed), count().await)
        };
        assert_eq!(sweep(HOUR / 2).await, (0, all), "nothing is old");
        // What stays: the manifest and the chunks of one session, and what a later release has stored.
        assert_eq!(sweep(3 * HOUR).await, (2, 4));
        assert_eq!(found(&artifacts, "acme", "lasts").await.unwrap(), ["a", "b"]);
        assert_eq!(sweep(12 * HOUR).await, (1, 1));
        assert_eq!(found(&artifacts, "acme", "lasts").await, None);
    }
    assert_eq!(files(folder.path()), 1);
}
