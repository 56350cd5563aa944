//! A container of a pool.

use std::sync::Arc;
use std::time::Duration;

use thermae_schemas::TenantName;
use tokio::time::Instant;

use crate::backend::Container;
use crate::conn::Conn;

/// What a container takes of the machine beside its standing processes: sandboxes made ahead, what the kernel keeps of it, the engine's
/// process that watches it.
const BESIDE: u64 = 12 << 20;

/// How long a container may be making its next sandbox after a job, where its proofs don't tell.
const REST: Duration = Duration::from_millis(10);

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
    /// Whether it proves after each job that it is clean.
    pub(super) proves: bool,
}

impl Member {
    /// Whether a job may have it.
    pub(super) fn is_fit(&self) -> bool {
        !self.conn.closed().is_cancelled() && !self.conn.is_unclean()
    }

    /// Whether its next sandbox stands: a proof comes only when it does.
    pub(super) fn is_stocked(&self) -> bool {
        if self.proves { self.conn.is_proven() } else { self.used.elapsed() >= REST }
    }

    /// What it takes of the machine's memory while it is idle, in bytes.
    pub(super) fn weight(&self) -> u64 {
        self.conn.memory() + BESIDE
    }
}
