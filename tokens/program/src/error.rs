//! What can go wrong.

use std::io;
use std::path::{Path, PathBuf};

use thermae_tokens::{BadRevocation, KeyFileError, Refused, Unwritten};

/// An error of the program. Its text stands on standard error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A token gives no rights. The code is stable.
    #[error("{code}: {0}", code = .0.code().as_str())]
    Refused(#[from] Refused),
    /// A token can't be written.
    #[error(transparent)]
    Unwritten(#[from] Unwritten),
    /// A key can't be read or written.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// A list of revoked tokens can't be used.
    #[error("the list of revoked tokens can't be used: {0}")]
    Revocations(#[from] BadRevocation),
    /// A file of capabilities has none.
    #[error("{}: {source}", .path.display())]
    Capabilities { path: PathBuf, source: thermae_capabilities::Malformed },
    /// A file can't be read or written.
    #[error("{}: {source}", .path.display())]
    File { path: PathBuf, source: io::Error },
    /// A file has more than can be used.
    #[error("{}: the file is too large", .0.display())]
    Large(PathBuf),
    /// Standard output is gone.
    #[error("standard output can't be written: {0}")]
    Output(io::Error),
    /// A token without blocks.
    #[error("the token has no blocks")]
    Empty,
    /// A time that no clock has.
    #[error("the token would never expire: give a shorter --expires-in")]
    Time,
}

impl Error {
    /// For errors of this file.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }

    /// The exit status.
    pub(crate) fn status(&self) -> u8 {
        if matches!(self, Self::Refused(_)) { 1 } else { 2 }
    }
}
