//! What both kinds of database have in common: the tables, the statements, the rows.

use std::num::NonZeroU32;
use std::time::Duration;

use sqlx::SqlSafeStr as _;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use thermae_schemas::TenantName;

use crate::{Hash, Key, KeyId, Limits, Scopes, StoreError, Stored};

/// The migrations, in order. One that was released never changes, and later ones leave what earlier releases need.
const MIGRATIONS: [(i64, &str, &str); 1] = [(1, "keys", include_str!("../migrations/1_keys.sql"))];

/// Their table. Other programs may have theirs in the same database.
const TABLE: &str = "thermae_keys_migrations";

/// The columns by name. With `*`, a statement that Postgres has prepared would fail once a newer release adds a column.
macro_rules! columns {
    () => {
        "id, hash, name, tenant, scopes, created_ms, expires_ms, requests_per_minute, runs_at_once, last_used_ms, \
         revoked_ms"
    };
}

pub(crate) const INSERT: &str =
    concat!("INSERT INTO api_keys (", columns!(), ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)");

pub(crate) const FIND: &str = concat!("SELECT ", columns!(), " FROM api_keys WHERE id = $1");

pub(crate) const LIST: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM api_keys WHERE (created_ms > $1 OR (created_ms = $1 AND id > $2)) \
     AND (CAST($3 AS TEXT) IS NULL OR tenant = CAST($3 AS TEXT)) ORDER BY created_ms, id LIMIT $4"
);

pub(crate) const REVOKE: &str = concat!(
    "UPDATE api_keys SET revoked_ms = COALESCE(revoked_ms, $2) \
     WHERE id = $1 AND (CAST($3 AS TEXT) IS NULL OR tenant = CAST($3 AS TEXT)) RETURNING ",
    columns!()
);

pub(crate) const TOUCH: &str = "UPDATE api_keys SET last_used_ms = $2 \
     WHERE id = $1 AND (last_used_ms IS NULL OR last_used_ms < $3)";

/// Makes the tables. A database that a newer release has changed is used as it is.
pub(crate) fn migrator() -> Migrator {
    let migrations = MIGRATIONS.into_iter().map(|(version, about, sql)| {
        Migration::new(version, about.into(), MigrationType::Simple, sql.into_sql_str(), false)
    });
    let mut migrator = Migrator::with_migrations(migrations.collect());
    migrator.dangerous_set_table_name(TABLE);
    migrator.set_ignore_missing(true);
    migrator
}

/// A row, as the database has it.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) hash: String,
    pub(crate) name: String,
    pub(crate) tenant: String,
    pub(crate) scopes: String,
    pub(crate) created_ms: i64,
    pub(crate) expires_ms: Option<i64>,
    pub(crate) requests_per_minute: Option<i64>,
    pub(crate) runs_at_once: Option<i64>,
    pub(crate) last_used_ms: Option<i64>,
    pub(crate) revoked_ms: Option<i64>,
}

/// A time as the database has it. Times beyond its numbers are as late as they can be.
pub(crate) fn time(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

impl Row {
    pub(crate) fn of(entry: &Stored) -> Self {
        let Stored { key, hash } = entry;
        let limit = |limit: Option<NonZeroU32>| limit.map(|limit| limit.get().into());
        Self {
            id: key.id.to_string(),
            hash: hex::encode(hash.as_bytes()),
            name: key.name.clone(),
            tenant: key.tenant.to_string(),
            scopes: key.scopes.to_string(),
            created_ms: time(key.created_ms),
            expires_ms: key.expires_ms.map(time),
            requests_per_minute: limit(key.limits.requests_per_minute),
            runs_at_once: limit(key.limits.runs_at_once),
            last_used_ms: key.last_used_ms.map(time),
            revoked_ms: key.revoked_ms.map(time),
        }
    }

    /// Reads a row that was asked for by this id, or by none. Refuses one that this crate can't have written.
    pub(crate) fn entry(self) -> Result<Stored, StoreError> {
        let id: KeyId = self.id.parse().map_err(|_| sqlx::Error::Decode("an id of an API key".into()))?;
        let damaged = |what| StoreError::Damaged { id: id.clone(), what };
        let time = |ms: Option<i64>, what| ms.map(|ms| u64::try_from(ms).map_err(|_| damaged(what))).transpose();
        let limit = |limit: Option<i64>, what| {
            let limit = limit.map(|limit| u32::try_from(limit).ok().and_then(NonZeroU32::new));
            limit.map(|limit| limit.ok_or_else(|| damaged(what))).transpose()
        };
        let mut hash = [0; 32];
        hex::decode_to_slice(&self.hash, &mut hash).map_err(|_| damaged("hash"))?;
        let key = Key {
            tenant: TenantName::new(self.tenant).map_err(|_| damaged("tenant"))?,
            scopes: Scopes::known(&self.scopes),
            limits: Limits {
                requests_per_minute: limit(self.requests_per_minute, "requests_per_minute")?,
                runs_at_once: limit(self.runs_at_once, "runs_at_once")?,
            },
            created_ms: u64::try_from(self.created_ms).map_err(|_| damaged("created_ms"))?,
            expires_ms: time(self.expires_ms, "expires_ms")?,
            last_used_ms: time(self.last_used_ms, "last_used_ms")?,
            revoked_ms: time(self.revoked_ms, "revoked_ms")?,
            name: self.name,
            id: id.clone(),
        };
        Ok(Stored { key, hash: Hash::from(hash) })
    }
}

/// Does something that may take so long.
pub(crate) async fn within<T, E: Into<StoreError>>(
    limit: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(limit, work).await {
        Ok(done) => done.map_err(Into::into),
        Err(_) => Err(StoreError::TimedOut(limit)),
    }
}

/// Implements [`Store`](crate::Store) for a type with a `pool` and a method `within`, which does an operation. Sqlx has no bounds by which one generic
/// implementation could be written in fewer lines.
macro_rules! store {
    ($store:ty, $row:ty) => {
        impl $store {
            fn row(row: &$row) -> Result<$crate::sql::Row, sqlx::Error> {
                use sqlx::Row as _;
                Ok($crate::sql::Row {
                    id: row.try_get("id")?,
                    hash: row.try_get("hash")?,
                    name: row.try_get("name")?,
                    tenant: row.try_get("tenant")?,
                    scopes: row.try_get("scopes")?,
                    created_ms: row.try_get("created_ms")?,
                    expires_ms: row.try_get("expires_ms")?,
                    requests_per_minute: row.try_get("requests_per_minute")?,
                    runs_at_once: row.try_get("runs_at_once")?,
                    last_used_ms: row.try_get("last_used_ms")?,
                    revoked_ms: row.try_get("revoked_ms")?,
                })
            }
        }

        #[async_trait::async_trait]
        impl $crate::Store for $store {
            async fn insert(&self, entry: &$crate::Stored) -> Result<(), $crate::StoreError> {
                let row = $crate::sql::Row::of(entry);
                let insert = sqlx::query($crate::sql::INSERT)
                    .bind(row.id)
                    .bind(row.hash)
                    .bind(row.name)
                    .bind(row.tenant)
                    .bind(row.scopes)
                    .bind(row.created_ms)
                    .bind(row.expires_ms)
                    .bind(row.requests_per_minute)
                    .bind(row.runs_at_once)
                    .bind(row.last_used_ms)
                    .bind(row.revoked_ms);
                self.within(insert.execute(&self.pool)).await.map(drop)
            }

            async fn find(&self, id: &$crate::KeyId) -> Result<Option<$crate::Stored>, $crate::StoreError> {
                let find = sqlx::query($crate::sql::FIND).bind(id.as_str());
                let row = self.within(find.fetch_optional(&self.pool)).await?;
                row.map(|row| Self::row(&row)?.entry()).transpose()
            }

            async fn list(&self, query: &$crate::Query) -> Result<$crate::Listed, $crate::StoreError> {
                let after = query.after.as_ref();
                let list = sqlx::query($crate::sql::LIST)
                    .bind(after.map_or(-1, |cursor| $crate::sql::time(cursor.created_ms)))
                    .bind(after.map_or("", |cursor| cursor.id.as_str()))
                    .bind(query.tenant.as_ref().map(|tenant| tenant.as_str()))
                    // One more tells whether there is a next page.
                    .bind(query.size() as i64 + 1);
                let rows = self.within(list.fetch_all(&self.pool)).await?;
                let keys = rows.iter().map(|row| Ok(Self::row(row)?.entry()?.key));
                Ok($crate::Listed::cut(keys.collect::<Result<_, $crate::StoreError>>()?, query.size()))
            }

            async fn revoke(
                &self,
                id: &$crate::KeyId,
                tenant: Option<&thermae_schemas::TenantName>,
                now_ms: u64,
            ) -> Result<Option<$crate::Key>, $crate::StoreError> {
                let revoke = sqlx::query($crate::sql::REVOKE)
                    .bind(id.as_str())
                    .bind($crate::sql::time(now_ms))
                    .bind(tenant.map(|tenant| tenant.as_str()));
                let row = self.within(revoke.fetch_optional(&self.pool)).await?;
                row.map(|row| Ok(Self::row(&row)?.entry()?.key)).transpose()
            }

            async fn touch(
                &self,
                id: &$crate::KeyId,
                now_ms: u64,
                unless_since_ms: u64,
            ) -> Result<(), $crate::StoreError> {
                let touch = sqlx::query($crate::sql::TOUCH)
                    .bind(id.as_str())
                    .bind($crate::sql::time(now_ms))
                    .bind($crate::sql::time(unless_since_ms));
                self.within(touch.execute(&self.pool)).await.map(drop)
            }
        }
    };
}

pub(crate) use store;
