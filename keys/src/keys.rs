//! Makes keys, and finds out whose key a request has.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use thermae_schemas::TenantName;

use crate::cache::{Cache, Cached, Clock};
use crate::{Denied, Key, KeyId, KeyText, Listed, NewKey, Query, Store, StoreError, Stored, Uncreated};

/// How long an answer of the store is used, if nothing else is set. A revocation by another gateway takes effect within
/// this time, and a key works for so long after the store was last reached.
pub const CACHE_TTL: Duration = Duration::from_secs(5);

/// The longest time that can be set.
pub const LONGEST_CACHE_TTL: Duration = Duration::from_secs(60);

/// How often the last use of a key is noted at most.
pub const TOUCH_EVERY: Duration = Duration::from_secs(60);

/// The API keys of a store.
#[derive(Debug)]
pub struct Keys {
    store: Arc<dyn Store>,
    cache: Cache,
}

/// A key that was made. Its text is nowhere else.
#[derive(Debug, Clone)]
pub struct Created {
    /// The entry.
    pub key: Key,
    /// The text, for its owner.
    pub text: KeyText,
}

impl Keys {
    /// The keys of this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self::with_cache(store, CACHE_TTL)
    }

    /// The same with another time in [`CACHE_TTL`]'s place. More than [`LONGEST_CACHE_TTL`] is as much as that.
    pub fn with_cache(store: Arc<dyn Store>, ttl: Duration) -> Self {
        Self::with_clock(store, ttl, Instant::now)
    }

    fn with_clock(store: Arc<dyn Store>, ttl: Duration, clock: Clock) -> Self {
        Self { store, cache: Cache::new(ttl.min(LONGEST_CACHE_TTL), clock) }
    }

    /// Makes a key at this time, in milliseconds since 1970.
    ///
    /// # Errors
    /// The new key breaks a rule, or the store gives no answer.
    pub async fn create(&self, new: &NewKey, now_ms: u64) -> Result<Created, Uncreated> {
        new.check(now_ms)?;
        let text = KeyText::generate().map_err(Uncreated::Random)?;
        let key = Key {
            id: text.id(),
            name: new.name.clone(),
            tenant: new.tenant.clone(),
            scopes: new.scopes,
            limits: new.limits,
            created_ms: now_ms,
            expires_ms: new.expires_ms,
            last_used_ms: None,
            revoked_ms: None,
        };
        let entry = Stored { key, hash: text.hash() };
        self.store.insert(&entry).await?;
        Ok(Created { key: entry.key, text })
    }

    /// Finds the key with this text, at this time in milliseconds since 1970. Whoever gets it must check its scopes and
    /// enforce its limits.
    ///
    /// # Errors
    /// There is no such key, it is revoked or has expired, or the store gives no answer.
    pub async fn authenticate(&self, text: &str, now_ms: u64) -> Result<Arc<Key>, Denied> {
        let text: KeyText = text.parse()?;
        let entry = self.entry(&text.id()).await?.ok_or(Denied::Unknown)?;
        if !entry.hash.is(&text.hash()) {
            return Err(Denied::Unknown);
        }
        // Only the owner gets here, so the reason may be told.
        valid(&entry.key, now_ms)?;
        if entry.to_note(now_ms, TOUCH_EVERY) {
            self.note(&entry.key.id, now_ms).await;
        }
        Ok(entry.key.clone())
    }

    /// Whether a key that was found before may still be used at this time, in milliseconds since 1970. No use is noted.
    ///
    /// # Errors
    /// As for [`authenticate`](Self::authenticate).
    pub async fn still_valid(&self, id: &KeyId, now_ms: u64) -> Result<(), Denied> {
        let entry = self.entry(id).await?.ok_or(Denied::Unknown)?;
        valid(&entry.key, now_ms)
    }

    async fn entry(&self, id: &KeyId) -> Result<Option<Arc<Cached>>, StoreError> {
        if let Some(entry) = self.cache.get(id) {
            return Ok(Some(entry));
        }
        // The answer may be as old as the question.
        let asked = self.cache.now();
        let Some(entry) = self.store.find(id).await? else {
            self.cache.remove(id);
            return Ok(None);
        };
        let entry = Cached::new(entry, asked);
        self.cache.put(&entry);
        Ok(Some(entry))
    }

    /// Notes the last use. It is for people, so a request does not fail without it.
    async fn note(&self, id: &KeyId, now_ms: u64) {
        let since = now_ms.saturating_sub(TOUCH_EVERY.as_millis() as u64);
        if let Err(error) = self.store.touch(id, now_ms, since.saturating_add(1)).await {
            tracing::warn!(key.id = %id, error = &error as &dyn std::error::Error, "the use of a key was not noted");
        }
    }

    /// Lists keys.
    ///
    /// # Errors
    /// The store gives no answer.
    pub async fn list(&self, query: &Query) -> Result<Listed, StoreError> {
        self.store.list(query).await
    }

    /// Revokes a key at this time, in milliseconds since 1970; only one of this tenant if one is given. It takes effect
    /// here at once, and everywhere within [`CACHE_TTL`]. Gives the key, or `None` if there is none.
    ///
    /// # Errors
    /// The store gives no answer. The key may be revoked or not.
    pub async fn revoke(
        &self,
        id: &KeyId,
        tenant: Option<&TenantName>,
        now_ms: u64,
    ) -> Result<Option<Key>, StoreError> {
        let revoked = self.store.revoke(id, tenant, now_ms).await;
        self.cache.remove(id);
        revoked
    }
}

fn valid(key: &Key, now_ms: u64) -> Result<(), Denied> {
    if key.revoked_ms.is_some() {
        return Err(Denied::Revoked);
    }
    if key.expires_ms.is_some_and(|end| end <= now_ms) {
        return Err(Denied::Expired);
    }
    Ok(())
}
