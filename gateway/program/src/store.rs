//! Where the API keys are.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use thermae_gateway::Own;
use thermae_keys::{Key, KeyId, LIMIT, Listed, Postgres, Query, Sqlite, Store, StoreError, Stored};
use thermae_schemas::TenantName;
use thermae_service::secret::Secret;
use tokio::sync::Mutex;

/// Where the store is.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// A file of this machine.
    Sqlite(PathBuf),
    /// The URL of a database, with its password.
    Postgres(Secret),
}

/// A place that can't be one. The message does not repeat it, because it may contain a password.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadPlace {
    #[error("`gateway.keys` must name the store of API keys: sqlite:PATH or postgres://user:password@host/database")]
    Missing,
    #[error("`gateway.keys` is neither sqlite:PATH nor postgres://user:password@host/database")]
    Form,
    #[error("`gateway.keys` is not the URL of a database")]
    Url(#[source] StoreError),
}

impl Place {
    /// The place in a configuration.
    pub(crate) fn of(options: &Own) -> Result<Self, BadPlace> {
        let url = options.keys.as_ref().ok_or(BadPlace::Missing)?;
        let text = url.expose();
        if let Some(path) = text.strip_prefix("sqlite:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return if path.is_empty() { Err(BadPlace::Form) } else { Ok(Self::Sqlite(path.into())) };
        }
        if !(text.starts_with("postgres://") || text.starts_with("postgresql://")) {
            return Err(BadPlace::Form);
        }
        Postgres::check(text).map_err(BadPlace::Url)?;
        Ok(Self::Postgres(url.clone()))
    }

    /// Opens the store. A missing table is made.
    pub(crate) async fn open(&self, file: File) -> Result<Arc<dyn Store>, StoreError> {
        Ok(match (self, file) {
            (Self::Sqlite(path), File::Make) => Arc::new(Sqlite::open(path).await?),
            (Self::Sqlite(path), File::Find) => Arc::new(Sqlite::reopen(path).await?),
            (Self::Postgres(url), _) => Arc::new(Postgres::open(url.expose()).await?),
        })
    }
}

/// What to do about the file of a store if it is missing.
#[derive(Debug, Clone, Copy)]
pub(crate) enum File {
    /// Make it.
    Make,
    /// Wait for it.
    Find,
}

/// A store that is opened as soon as it can be, and anew once its file was replaced. Meanwhile it is away.
#[derive(Debug)]
pub(crate) struct Late {
    place: Place,
    store: RwLock<Option<Arc<dyn Store>>>,
    file: Mutex<File>,
}

impl Late {
    pub(crate) fn new(place: Place) -> Self {
        Self { place, store: RwLock::default(), file: Mutex::new(File::Make) }
    }

    /// Looks whether the store is there, and opens it if it isn't open, however long that takes.
    pub(crate) async fn look(&self) -> Result<(), StoreError> {
        if self.opened().is_err() {
            // A file is made once: later, it is the operator who puts one there.
            let mut file = self.file.lock().await;
            let opened = self.place.open(*file).await?;
            *file = File::Find;
            self.set(Some(opened));
        }
        let looked = self.list(&Query { most: 1, ..Query::default() }).await;
        if matches!(looked, Err(StoreError::Replaced)) {
            self.set(None);
        }
        looked.map(drop)
    }

    fn set(&self, store: Option<Arc<dyn Store>>) {
        *self.store.write().unwrap_or_else(PoisonError::into_inner) = store;
    }

    /// The store, if it is open.
    fn opened(&self) -> Result<Arc<dyn Store>, StoreError> {
        let store = self.store.read().unwrap_or_else(PoisonError::into_inner);
        store.clone().ok_or(StoreError::TimedOut(LIMIT))
    }
}

#[async_trait]
impl Store for Late {
    async fn insert(&self, entry: &Stored) -> Result<(), StoreError> {
        self.opened()?.insert(entry).await
    }

    async fn find(&self, id: &KeyId) -> Result<Option<Stored>, StoreError> {
        self.opened()?.find(id).await
    }

    async fn list(&self, query: &Query) -> Result<Listed, StoreError> {
        self.opened()?.list(query).await
    }

    async fn revoke(&self, id: &KeyId, tenant: Option<&TenantName>, now_ms: u64) -> Result<Option<Key>, StoreError> {
        self.opened()?.revoke(id, tenant, now_ms).await
    }

    async fn touch(&self, id: &KeyId, now_ms: u64, unless_since_ms: u64) -> Result<(), StoreError> {
        self.opened()?.touch(id, now_ms, unless_since_ms).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_file_or_a_database() {
        let place = |text: &str| Place::of(&Own { keys: Some(text.into()), ..Own::default() });
        for (text, path) in [("sqlite:keys.db", "keys.db"), ("sqlite:///var/keys.db", "/var/keys.db")] {
            assert!(matches!(place(text), Ok(Place::Sqlite(found)) if found.as_os_str() == path), "{text}");
        }
        assert!(matches!(place("postgres://u:hunter2@h/d?sslmode=verify-full"), Ok(Place::Postgres(_))));
        for bad in ["", "keys.db", "sqlite:", "sqlite://", "mysql://h/d", "postgres://u:hunter2@h:port/d"] {
            let error = place(bad).unwrap_err();
            assert!(!format!("{error:?} {error}").contains("hunter2"), "{error:?}");
        }
        assert!(matches!(Place::of(&Own::default()), Err(BadPlace::Missing)));
    }
}
