//! Places for stores.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqliteConnection};
use tempfile::TempDir;
use thermae_keys::{Hash, Key, KeyId, Limits, Postgres, Scope, Sqlite, Store, StoreError, Stored};
use thermae_schemas::TenantName;

pub const NOW: u64 = 1_800_000_000_000;

/// Where a store is. Several can be opened there, as by several gateways.
pub enum Place {
    File(TempDir),
    Database(String),
}

impl Place {
    pub fn file() -> Self {
        Self::File(tempfile::tempdir().unwrap())
    }

    /// A new database on the tests' server.
    pub async fn database() -> Self {
        let server = std::env::var("THERMAE_TEST_POSTGRES");
        let server = server.expect("THERMAE_TEST_POSTGRES names no server; `cargo xtask test` starts one");
        let name = format!("keys_{}", uuid::Uuid::new_v4().simple());
        let mut connection = PgConnection::connect(&server).await.unwrap();
        let make = format!("CREATE DATABASE {name}");
        sqlx::query(AssertSqlSafe(make)).execute(&mut connection).await.unwrap();
        let (server, _) = server.rsplit_once('/').unwrap();
        Self::Database(format!("{server}/{name}"))
    }

    pub async fn try_open(&self, limit: Duration) -> Result<Arc<dyn Store>, StoreError> {
        Ok(match self {
            Self::File(folder) => Arc::new(Sqlite::open_with(folder.path().join("keys.db"), limit).await?),
            Self::Database(url) => Arc::new(Postgres::open_with(url, limit).await?),
        })
    }

    pub async fn open(&self) -> Arc<dyn Store> {
        // Longer than anything takes here.
        self.try_open(Duration::from_secs(60)).await.unwrap()
    }

    /// Runs a statement that no store runs.
    pub async fn execute(&self, statement: &str) {
        let statement = sqlx::raw_sql(AssertSqlSafe(statement.to_owned()));
        match self {
            Self::File(folder) => {
                let url = format!("sqlite://{}", folder.path().join("keys.db").display());
                let mut connection = SqliteConnection::connect(&url).await.unwrap();
                statement.execute(&mut connection).await.unwrap();
            }
            Self::Database(url) => {
                let mut connection = PgConnection::connect(url).await.unwrap();
                statement.execute(&mut connection).await.unwrap();
            }
        }
    }
}

pub fn tenant(name: &str) -> TenantName {
    TenantName::new(name).unwrap()
}

pub fn id(number: u32) -> KeyId {
    format!("{number:016x}").parse().unwrap()
}

/// An entry with every field.
pub fn entry(number: u32, of: &str) -> Stored {
    let limit = |limit| NonZeroU32::new(limit);
    let key = Key {
        id: id(number),
        name: format!("key {number}"),
        tenant: tenant(of),
        scopes: [Scope::Run, Scope::Approve].into_iter().collect(),
        limits: Limits { requests_per_minute: limit(u32::MAX), runs_at_once: limit(1) },
        created_ms: NOW,
        expires_ms: Some(NOW + 1),
        last_used_ms: Some(NOW - 1),
        revoked_ms: Some(0),
    };
    Stored { key, hash: Hash::from([number as u8; 32]) }
}

/// An entry that can be used.
pub fn plain(number: u32, of: &str) -> Stored {
    let Stored { key, hash } = entry(number, of);
    let key = Key { limits: Limits::default(), expires_ms: None, last_used_ms: None, revoked_ms: None, ..key };
    Stored { key, hash }
}
