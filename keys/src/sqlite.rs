//! A store in a file, for one gateway.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow, SqliteSynchronous};

use crate::{LIMIT, StoreError, sql};

/// Entries in a file (SQLite). Several processes of one machine can use it, and not several machines.
#[derive(Debug)]
pub struct Sqlite {
    pool: SqlitePool,
    limit: Duration,
}

impl Sqlite {
    /// Opens a file. If it is missing, it is made, and only its owner may open it.
    ///
    /// # Errors
    /// The file can't be made or is no such store.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_with(path, LIMIT).await
    }

    /// The same with another limit for each operation.
    ///
    /// # Errors
    /// The file can't be made or is no such store.
    pub async fn open_with(path: impl AsRef<Path>, limit: Duration) -> Result<Self, StoreError> {
        let path = path.as_ref();
        // SQLite would make it with the permissions of any file. Its other files get those of this one.
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(StoreError::File(error)),
            _ => {}
        }
        let options = SqliteConnectOptions::new()
            .filename(path)
            .journal_mode(SqliteJournalMode::Wal)
            // What a revocation has written must not be lost with the machine's power.
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(limit / 2);
        let pool = SqlitePoolOptions::new().max_connections(4).acquire_timeout(limit).connect_lazy_with(options);
        let migrator = sql::migrator();
        let migrate = || sql::within(limit.max(LIMIT), migrator.run(&pool));
        // SQLite has no lock for this. If another process makes the tables at the same time, they are there afterwards.
        if migrate().await.is_err() {
            migrate().await?;
        }
        Ok(Self { pool, limit })
    }
}

sql::store!(Sqlite, SqliteRow);
