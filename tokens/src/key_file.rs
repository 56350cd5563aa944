//! Files with keys.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::{BadKey, PublicKey, SecretKey};

/// Most bytes of a file with a key.
const LARGEST: u64 = 16 << 10;

/// A file with a key can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file can't be opened, read or written. A file that is there is never overwritten.
    #[error("{path}: {source}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others than its owner may read or change a private key's file.
    #[error("{path} has a private key, and others than its owner may open it (mode {mode:03o}): chmod 600 it",
        path = .path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It has no key of the kind.
    #[error("{path}: {source}", path = .path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What it should have.
        source: BadKey,
    },
    /// Its name has no key id: it must be a number and `.pem`.
    #[error("{path}: the name of a file with a public key is the key's id and `.pem`, such as `1.pem`",
        path = .0.display())]
    Name(PathBuf),
}

impl SecretKey {
    /// Reads a key from a file in PEM.
    ///
    /// # Errors
    /// The file can't be read, has no such key, or others than its owner may open it.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, KeyFileError> {
        let path = path.as_ref();
        let (text, mode) = read(path)?;
        if mode & 0o077 != 0 {
            return Err(KeyFileError::Exposed { path: path.to_owned(), mode });
        }
        Self::from_pem(&text).map_err(key(path))
    }

    /// Writes the key into a new file in PEM, which only its owner may open (mode 0600).
    ///
    /// # Errors
    /// The file is there already, or can't be written.
    pub fn write_new(&self, path: impl AsRef<Path>) -> Result<(), KeyFileError> {
        let path = path.as_ref();
        write_new(path, &self.to_pem(), 0o600)
    }
}

impl PublicKey {
    /// Reads a key from a file in PEM.
    ///
    /// # Errors
    /// The file can't be read or has no such key.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, KeyFileError> {
        let path = path.as_ref();
        Self::from_pem(&read(path)?.0).map_err(key(path))
    }

    /// Writes the key into a new file in PEM, which all may read.
    ///
    /// # Errors
    /// The file is there already, or can't be written.
    pub fn write_new(&self, path: impl AsRef<Path>) -> Result<(), KeyFileError> {
        let path = path.as_ref();
        write_new(path, &self.to_pem(), 0o644)
    }
}

pub(crate) fn failed(path: &Path) -> impl FnOnce(io::Error) -> KeyFileError {
    move |source| KeyFileError::Io { path: path.to_owned(), source }
}

fn key(path: &Path) -> impl FnOnce(BadKey) -> KeyFileError {
    move |source| KeyFileError::Key { path: path.to_owned(), source }
}

/// The text of a file, and its permissions.
fn read(path: &Path) -> Result<(String, u32), KeyFileError> {
    let read = || {
        let file = File::open(path)?;
        // The permissions of what was opened, and not of what has the name by now.
        let mode = file.metadata()?.permissions().mode() & 0o777;
        let mut text = String::new();
        file.take(LARGEST).read_to_string(&mut text)?;
        Ok((text, mode))
    };
    read().map_err(failed(path))
}

fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), KeyFileError> {
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().map_err(failed(path))
}
