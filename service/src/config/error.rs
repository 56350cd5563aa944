//! Errors in a configuration. Each message contains the key's path and its source.

use std::path::PathBuf;

/// Why a configuration can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file can't be read.
    #[error("can't read the configuration file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The file is not valid TOML.
    #[error("the configuration file {} is not valid TOML: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The parser's message.
        message: String,
    },
    /// A key does not exist, or a value does not fit.
    #[error("configuration key `{key}`{}: {message}", from(origin))]
    Value {
        /// The key's dotted path.
        key: String,
        /// The file, variable or flag that contains it. `None` for a default or a missing value.
        origin: Option<String>,
        /// What is wrong.
        message: String,
    },
}

fn from(origin: &Option<String>) -> String {
    origin.as_ref().map(|origin| format!(" (from {origin})")).unwrap_or_default()
}

impl Error {
    /// A value that a component refuses after it was read:
    /// `Error::invalid("pools.default.slots", "must be at least 1")`.
    pub fn invalid(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Value { key: key.into(), origin: None, message: message.into() }
    }

    pub(super) fn value(key: &str, origin: Option<String>, error: config::ConfigError) -> Self {
        Self::Value { key: key.to_owned(), origin, message: message(error) }
    }
}

/// The library's message without the key and the origin.
fn message(error: config::ConfigError) -> String {
    use config::ConfigError;
    match error {
        ConfigError::At { error, .. } => message(*error),
        ConfigError::Type { unexpected, expected, .. } => format!("found {unexpected}, expected {expected}"),
        other => other.to_string(),
    }
}
