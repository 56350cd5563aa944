//! Lets the holders of API keys in.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use thermae_gateway::{Caller, Denied, Identity};
use thermae_keys::{Bucket, Key, KeyId, Keys};

use crate::now_ms;

/// After this time without a request, a bucket is full again.
const FULL_AFTER_MS: u64 = 60_000;
/// Number of buckets at which full ones are forgotten.
const MANY: usize = 4096;

/// The keys of the store, and how much each has been used here.
pub(crate) struct Keyring {
    keys: Keys,
    begun: Instant,
    buckets: Mutex<HashMap<KeyId, Counted>>,
}

/// The requests of a key.
struct Counted {
    limit: NonZeroU32,
    bucket: Bucket,
    last_ms: u64,
}

impl Keyring {
    pub(crate) fn new(keys: Keys) -> Self {
        Self { keys, begun: Instant::now(), buckets: Mutex::default() }
    }

    /// Counts a request of a key at this time, in milliseconds since the ring was made.
    fn count(&self, key: &Key, at_ms: u64) -> Result<(), Denied> {
        let Some(limit) = key.limits.requests_per_minute else { return Ok(()) };
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MANY {
            buckets.retain(|_, counted| at_ms.saturating_sub(counted.last_ms) < FULL_AFTER_MS);
        }
        let new = || Counted { limit, bucket: Bucket::new(limit, at_ms), last_ms: at_ms };
        let counted = buckets.entry(key.id.clone()).or_insert_with(new);
        if counted.limit != limit {
            *counted = new();
        }
        counted.last_ms = at_ms;
        counted.bucket.take(at_ms).map_err(|wait| Denied::Rate(wait.0))
    }
}

#[async_trait]
impl Identity for Keyring {
    async fn caller(&self, secret: &str) -> Result<Caller, Denied> {
        let key = self.keys.authenticate(secret, now_ms()).await.map_err(denied)?;
        let at_ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.count(&key, at_ms)?;
        Ok(Caller {
            tenant: key.tenant.clone(),
            scopes: key.scopes,
            key: Some(key.id.as_str().into()),
            runs_at_once: key.limits.runs_at_once,
            operator: false,
        })
    }

    async fn goes_on(&self, caller: &Caller) -> Result<(), Denied> {
        let id = caller.key.as_deref().and_then(|id| id.parse().ok()).ok_or(Denied::Unknown)?;
        self.keys.still_valid(&id, now_ms()).await.map_err(denied)
    }
}

fn denied(why: thermae_keys::Denied) -> Denied {
    use thermae_keys::Denied as Why;
    match why {
        Why::Malformed(_) => Denied::Malformed,
        Why::Unknown => Denied::Unknown,
        Why::Revoked => Denied::Revoked,
        Why::Expired => Denied::Expired,
        Why::Unavailable(error) => {
            // Requests don't fill the log with what `serve::watch` says now and then.
            tracing::debug!(error = &error as &dyn std::error::Error, "the store of API keys is away");
            Denied::Unavailable
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use thermae_keys::{Limits, NewKey, Scope, Sqlite};
    use thermae_schemas::TenantName;

    use super::*;

    async fn ring() -> (tempfile::TempDir, Keyring) {
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::open(folder.path().join("keys.db")).await.unwrap();
        (folder, Keyring::new(Keys::new(Arc::new(store))))
    }

    fn wanted(rate: u32) -> NewKey {
        NewKey {
            name: "k".to_owned(),
            tenant: TenantName::new("acme").unwrap(),
            scopes: [Scope::Read].into_iter().collect(),
            limits: Limits { requests_per_minute: NonZeroU32::new(rate), runs_at_once: NonZeroU32::new(3) },
            expires_ms: None,
        }
    }

    #[tokio::test]
    async fn a_key_is_its_tenants_caller_until_it_is_revoked() {
        let (_folder, ring) = ring().await;
        let made = ring.keys.create(&wanted(0), now_ms()).await.unwrap();
        let caller = ring.caller(made.text.as_str()).await.unwrap();
        assert_eq!((caller.tenant.as_str(), caller.scopes, caller.operator), ("acme", made.key.scopes, false));
        assert_eq!(caller.key.as_deref(), Some(made.key.id.as_str()));
        assert_eq!((caller.runs_at_once, ring.goes_on(&caller).await), (NonZeroU32::new(3), Ok(())));
        ring.keys.revoke(&made.key.id, None, now_ms()).await.unwrap();
        assert_eq!(ring.caller(made.text.as_str()).await, Err(Denied::Revoked));
        assert_eq!(ring.goes_on(&caller).await, Err(Denied::Revoked));
        assert_eq!(ring.goes_on(&Caller { key: None, ..caller }).await, Err(Denied::Unknown));
        assert_eq!(ring.caller("thm_x").await, Err(Denied::Malformed));
    }

    #[tokio::test]
    async fn requests_beyond_the_rate_wait() {
        let (_folder, ring) = ring().await;
        let made = ring.keys.create(&wanted(2), now_ms()).await.unwrap();
        let count = |at_ms| ring.count(&made.key, at_ms);
        assert_eq!((count(0), count(0)), (Ok(()), Ok(())));
        assert_eq!(count(10_000), Err(Denied::Rate(Duration::from_secs(20))));
        assert_eq!(count(30_000), Ok(()));
        // Another limit begins with a full bucket.
        let other = Key { limits: Limits { requests_per_minute: NonZeroU32::new(1), ..made.key.limits }, ..made.key };
        assert_eq!(ring.count(&other, 30_000), Ok(()));
        assert!(ring.count(&other, 30_000).is_err());
    }

    #[tokio::test]
    async fn full_buckets_are_forgotten() {
        let (_folder, ring) = ring().await;
        let made = ring.keys.create(&wanted(1), now_ms()).await.unwrap();
        let key = |number: usize| Key { id: format!("{number:016x}").parse().unwrap(), ..made.key.clone() };
        for number in 0..MANY {
            ring.count(&key(number), number as u64).unwrap();
        }
        let late = FULL_AFTER_MS + 10;
        ring.count(&key(MANY), late).unwrap();
        assert_eq!(ring.buckets.lock().unwrap().len(), MANY - 10);
        assert!(ring.count(&key(MANY), late).is_err(), "one that is in use stays");
    }
}
