//! Prometheus, for tests that start one with their own configuration.

use std::path::PathBuf;

use anyhow::Result;

use super::packages;

/// The server's program. Its package is installed if it is missing.
pub(crate) fn program() -> Result<PathBuf> {
    packages::ensure("prometheus", "prometheus")
}
