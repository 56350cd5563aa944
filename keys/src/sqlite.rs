//! A store in a file, for one gateway.

use std::fs::OpenOptions;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow, SqliteSynchronous};

use crate::{LIMIT, StoreError, sql};

/// Entries in a file (SQLite). Several processes of one machine can use it, and not several machines.
///
/// Once another file is in the file's place, such as a backup, every operation fails with [`StoreError::Replaced`]:
/// SQLite would go on with the file that is gone, where nobody revokes a key. [`Sqlite::reopen`] opens the new one.
#[derive(Debug)]
pub struct Sqlite {
    pool: SqlitePool,
    limit: Duration,
    path: PathBuf,
    file: Identity,
    /// Whether it was replaced at any time. A connection may have been opened then.
    replaced: AtomicBool,
}

/// Which file it is, whatever its name: its device and its inode.
#[derive(Debug, PartialEq, Eq)]
struct Identity(u64, u64);

impl Identity {
    async fn of(path: &Path) -> Result<Self, StoreError> {
        let found = tokio::fs::metadata(path).await.map_err(StoreError::File)?;
        Ok(Self(found.dev(), found.ino()))
    }
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
        Self::there(path, limit).await
    }

    /// Opens a file that was a store before. If it is missing, it is not made: an empty store would stand in the way of
    /// the backup that is being put there.
    ///
    /// # Errors
    /// The file is missing or is no such store.
    pub async fn reopen(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::there(path.as_ref(), LIMIT).await
    }

    async fn there(path: &Path, limit: Duration) -> Result<Self, StoreError> {
        let file = Identity::of(path).await?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            // All of the store is in the one file, so a copy of it is whole. A write-ahead log would stay behind when
            // the file is replaced, and be applied to the next one.
            .journal_mode(SqliteJournalMode::Delete)
            // What a revocation has written must not be lost with the machine's power.
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(limit / 2);
        let pool = SqlitePoolOptions::new().max_connections(4).acquire_timeout(limit).connect_lazy_with(options);
        let this = Self { pool, limit, path: path.to_owned(), file, replaced: AtomicBool::new(false) };
        let migrator = sql::migrator();
        let migrate = || async {
            sql::within(limit.max(LIMIT), migrator.run(&this.pool)).await?;
            this.is_there().await
        };
        // SQLite has no lock for this. If another process makes the tables at the same time, they are there afterwards.
        if migrate().await.is_err() {
            migrate().await?;
        }
        Ok(this)
    }

    /// Whether the file is still the one that was opened.
    async fn is_there(&self) -> Result<(), StoreError> {
        let same = Identity::of(&self.path).await.is_ok_and(|now| now == self.file);
        if !same {
            self.replaced.store(true, Ordering::Relaxed);
        }
        if self.replaced.load(Ordering::Relaxed) { Err(StoreError::Replaced) } else { Ok(()) }
    }

    /// Does an operation on the pool, and makes sure that the file was there before and after it.
    async fn within<T, E: Into<StoreError>>(&self, work: impl Future<Output = Result<T, E>>) -> Result<T, StoreError> {
        let work = async {
            self.is_there().await?;
            let done = work.await.map_err(Into::into);
            self.is_there().await?;
            done
        };
        sql::within(self.limit, work).await
    }
}

sql::store!(Sqlite, SqliteRow);
