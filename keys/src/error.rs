//! What can go wrong with keys.

use std::time::Duration;

use crate::{BadKeyText, KeyId};

/// A request whose key gives it no rights. Every variant has a stable code.
#[derive(Debug, thiserror::Error)]
pub enum Denied {
    /// The text is no key.
    #[error(transparent)]
    Malformed(#[from] BadKeyText),
    /// The store has no such key: the id or the secret is wrong. Nobody is told which.
    #[error("there is no such API key")]
    Unknown,
    /// The key is revoked.
    #[error("the API key is revoked")]
    Revoked,
    /// The key has expired.
    #[error("the API key has expired")]
    Expired,
    /// The store gives no answer, so nobody knows.
    #[error(transparent)]
    Unavailable(#[from] StoreError),
}

impl Denied {
    /// The stable code, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "key_malformed",
            Self::Unknown => "key_unknown",
            Self::Revoked => "key_revoked",
            Self::Expired => "key_expired",
            Self::Unavailable(_) => StoreError::CODE,
        }
    }
}

/// The store gives no answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database can't be reached, or can't do what it must.
    #[error("the store of API keys does not work")]
    Database(#[from] sqlx::Error),
    /// The database did not answer in time.
    #[error("the store of API keys did not answer within {} s", .0.as_secs_f64())]
    TimedOut(Duration),
    /// The tables could not be made.
    #[error("the tables of API keys could not be made")]
    Tables(#[from] sqlx::migrate::MigrateError),
    /// The file of the store could not be made or found.
    #[error("the file of the store of API keys could not be made or found")]
    File(#[source] std::io::Error),
    /// Another file is in the place of the one that was opened, or none.
    #[error("the file of the store of API keys was replaced or removed")]
    Replaced,
    /// An entry is not as it was written.
    #[error("the entry of the API key {id} is damaged: {what}")]
    Damaged {
        /// The key.
        id: KeyId,
        /// What is wrong.
        what: &'static str,
    },
}

impl StoreError {
    /// The stable code, for programs.
    pub const CODE: &'static str = "keys_unavailable";
}

/// A key was not made.
#[derive(Debug, thiserror::Error)]
pub enum Uncreated {
    /// The name breaks its rule.
    #[error("the name of an API key has 1 to 100 characters, none of them a control character")]
    Name,
    /// There is no scope.
    #[error("an API key needs a scope")]
    NoScope,
    /// It would be expired already, or the time can't be stored.
    #[error("the API key would be expired at once")]
    Expired,
    /// The system gives no random bytes.
    #[error("the system gives no random bytes")]
    Random(#[source] std::io::Error),
    /// The store gives no answer. Perhaps the key was made; nobody knows its secret.
    #[error(transparent)]
    Store(#[from] StoreError),
}
