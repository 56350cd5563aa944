//! A store in a database, for gateways that share it.

use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgRow};

use crate::{LIMIT, StoreError, sql};

/// Connections of one gateway.
const CONNECTIONS: u32 = 8;

/// How long to wait for the tables, which another gateway may be making.
const TABLES: Duration = Duration::from_secs(60);

/// Entries in a database (Postgres), which several gateways share.
#[derive(Debug)]
pub struct Postgres {
    pool: PgPool,
    limit: Duration,
}

impl Postgres {
    /// Whether this can be the URL of a database. It connects to nothing.
    ///
    /// # Errors
    /// It can't be.
    pub fn check(url: &str) -> Result<(), StoreError> {
        url.parse::<PgConnectOptions>()?;
        Ok(())
    }

    /// Connects to a database and makes the tables if they are missing. The URL has the form
    /// `postgres://user:password@host/database?sslmode=verify-full`. Without `sslmode`, the connection uses TLS only if
    /// the server offers it.
    ///
    /// # Errors
    /// The URL is none, the server can't be reached, or it does not let the user make tables.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        Self::open_with(url, LIMIT).await
    }

    /// The same with another limit for each operation.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub async fn open_with(url: &str, limit: Duration) -> Result<Self, StoreError> {
        let options: PgConnectOptions = url.parse()?;
        let options = options.application_name("thermae-keys");
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS).acquire_timeout(limit).connect_lazy_with(options);
        sql::within(TABLES, sql::migrator().run(&pool)).await?;
        Ok(Self { pool, limit })
    }

    async fn within<T, E: Into<StoreError>>(&self, work: impl Future<Output = Result<T, E>>) -> Result<T, StoreError> {
        sql::within(self.limit, work).await
    }
}

sql::store!(Postgres, PgRow);
