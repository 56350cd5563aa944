//! Why a program ends early, and the exit status that says so.

use std::fmt;
use std::process::ExitCode;

/// The usage or the configuration is wrong.
const USAGE: u8 = 2;
/// A server refuses for good, or anything else failed.
const REFUSED: u8 = 3;

/// Why a program ends early. It shows the error and all its causes. Errors that `?` converts are
/// [`Failure::refused`].
#[derive(Debug)]
pub struct Failure {
    status: u8,
    error: anyhow::Error,
}

impl Failure {
    /// Wrong usage or configuration: exit status 2.
    pub fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self { status: USAGE, error: error.into() }
    }

    /// A server refuses for good, or anything else failed: exit status 3.
    pub fn refused(error: impl Into<anyhow::Error>) -> Self {
        Self { status: REFUSED, error: error.into() }
    }

    pub(super) fn status(&self) -> ExitCode {
        ExitCode::from(self.status)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.error)
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::refused(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Error;

    #[test]
    fn the_status_says_who_is_to_blame_and_the_text_names_the_cause() {
        let error = || Error::Read { path: "x.toml".into(), source: std::io::Error::other("no such file") };
        let failures = [Failure::usage(error()), Failure::from(error())];
        assert_eq!(failures.each_ref().map(|failure| failure.status), [2, 3]);
        for failure in failures {
            assert_eq!(failure.to_string(), "can't read the configuration file x.toml: no such file");
        }
    }
}
