//! A container of a pool.

use std::sync::Arc;

use thermae_schemas::TenantName;
use tokio::time::Instant;

use crate::backend::Container;
use crate::conn::Conn;

/// A container of a pool, ready for jobs.
pub(super) struct Member {
    pub(super) conn: Arc<Conn>,
    pub(super) container: Box<dyn Container>,
    /// Whose jobs it ran, where the reuse policy binds it.
    pub(super) tenant: Option<TenantName>,
    /// Jobs that it ran.
    pub(super) jobs: u32,
    pub(super) born: Instant,
    pub(super) used: Instant,
    /// Whether its runner has the inner wall.
    pub(super) nested: bool,
}

impl Member {
    /// Whether a job may have it.
    pub(super) fn is_fit(&self) -> bool {
        !self.conn.closed().is_cancelled() && !self.conn.is_unclean()
    }
}
