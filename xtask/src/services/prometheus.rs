//! Prometheus, for tests that start one with a configuration of their own.

use std::path::PathBuf;

use anyhow::Result;

use super::packages;

/// The server's binary; installed if that is needed and possible.
pub(crate) fn program() -> Result<PathBuf> {
    packages::ensure("prometheus", "prometheus")
}
