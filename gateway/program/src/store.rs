//! Where the API keys are.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use thermae_gateway::Own;
use thermae_keys::{Key, KeyId, LIMIT, Listed, Postgres, Query, Sqlite, Store, StoreError, Stored};
use thermae_schemas::TenantName;
use thermae_service::secret::Secret;
use tokio::sync::OnceCell;

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

    /// Opens the store. A missing file or table is made.
    pub(crate) async fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        Ok(match self {
            Self::Sqlite(path) => Arc::new(Sqlite::open(path).await?),
            Self::Postgres(url) => Arc::new(Postgres::open(url.expose()).await?),
        })
    }
}

/// A store that is opened as soon as it can be. Until then it is away.
#[derive(Debug)]
pub(crate) struct Late {
    place: Place,
    store: OnceCell<Arc<dyn Store>>,
}

impl Late {
    pub(crate) fn new(place: Place) -> Self {
        Self { place, store: OnceCell::new() }
    }

    /// Opens the store, however long that takes.
    pub(crate) async fn open(&self) -> Result<&Arc<dyn Store>, StoreError> {
        self.store.get_or_try_init(|| self.place.open()).await
    }

    /// The store, if it is open.
    fn opened(&self) -> Result<&Arc<dyn Store>, StoreError> {
        self.store.get().ok_or(StoreError::TimedOut(LIMIT))
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
