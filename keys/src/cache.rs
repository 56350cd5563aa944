//! What the store said a short while ago.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::{Hash, Key, KeyId, Stored};

/// Most entries. If there were more, those that are too old are forgotten, or all.
const MOST: usize = 10_000;

/// An entry as the store had it.
#[derive(Debug)]
pub(crate) struct Cached {
    pub(crate) key: Arc<Key>,
    pub(crate) hash: Hash,
    /// When it was asked for. The store's answer is from then or later.
    asked: Instant,
    /// The last use that is noted, or is being noted, in milliseconds since 1970.
    noted_ms: AtomicU64,
}

impl Cached {
    pub(crate) fn new(entry: Stored, asked: Instant) -> Arc<Self> {
        let noted_ms = AtomicU64::new(entry.key.last_used_ms.unwrap_or(0));
        Arc::new(Self { key: Arc::new(entry.key), hash: entry.hash, asked, noted_ms })
    }

    /// Whether a use at this time shall be noted. Says so to only one of those who ask.
    pub(crate) fn to_note(&self, now_ms: u64, every: Duration) -> bool {
        let noted = self.noted_ms.load(Ordering::Relaxed);
        let due = now_ms >= noted.saturating_add(every.as_millis() as u64);
        due && self.noted_ms.compare_exchange(noted, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// Tells the time.
pub(crate) type Clock = fn() -> Instant;

/// Entries that are not older than a certain time. Keys that do not exist have none: whoever tries out keys would fill
/// it.
#[derive(Debug)]
pub(crate) struct Cache {
    ttl: Duration,
    clock: Clock,
    entries: Mutex<HashMap<KeyId, Arc<Cached>>>,
}

impl Cache {
    pub(crate) fn new(ttl: Duration, clock: Clock) -> Self {
        Self { ttl, clock, entries: Mutex::default() }
    }

    /// The time now.
    pub(crate) fn now(&self) -> Instant {
        (self.clock)()
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<KeyId, Arc<Cached>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The entry of a key, if it is young enough.
    pub(crate) fn get(&self, id: &KeyId) -> Option<Arc<Cached>> {
        self.entries().get(id).filter(|entry| self.fresh(entry)).cloned()
    }

    fn fresh(&self, entry: &Cached) -> bool {
        self.now().saturating_duration_since(entry.asked) < self.ttl
    }

    /// Keeps an entry, unless a younger one is there.
    pub(crate) fn put(&self, entry: &Arc<Cached>) {
        let mut entries = self.entries();
        if entries.get(&entry.key.id).is_some_and(|there| there.asked > entry.asked) {
            return;
        }
        if entries.len() >= MOST {
            entries.retain(|_, entry| self.fresh(entry));
        }
        if entries.len() >= MOST {
            entries.clear();
        }
        entries.insert(entry.key.id.clone(), entry.clone());
    }

    /// Forgets a key.
    pub(crate) fn remove(&self, id: &KeyId) {
        self.entries().remove(id);
    }

    /// How many entries there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries().len()
    }
}
