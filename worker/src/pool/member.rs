//! A container of a pool, and what the pool has to know to lend it, retire it or remove it.

use std::sync::Arc;
use std::time::Duration;

use thermae_schemas::TenantName;
use tokio::time::Instant;

use crate::backend::Container;
use crate::conn::Conn;

/// Memory that a container takes in addition to its permanent processes, in bytes: sandboxes that are made ahead, what
/// the kernel keeps, and the engine's process that watches it.
const BESIDE: u64 = 12 << 20;

/// How long a container may take to make its next sandbox after a job. Used for containers that do not prove that they
/// are clean.
const REST: Duration = Duration::from_millis(10);

/// A container of a pool, ready for jobs.
pub(super) struct Member {
    pub(super) conn: Arc<Conn>,
    pub(super) container: Box<dyn Container>,
    /// The tenant whose job it ran last; `None` if it is unused.
    pub(super) tenant: Option<TenantName>,
    /// Number of jobs that it ran.
    pub(super) jobs: u32,
    pub(super) born: Instant,
    pub(super) used: Instant,
    /// Whether its runner makes the inner wall.
    pub(super) nested: bool,
    /// Whether it proves after each job that it is clean.
    pub(super) proves: bool,
}

impl Member {
    /// Whether a job may have it.
    pub(super) fn is_fit(&self) -> bool {
        !self.conn.closed().is_cancelled() && !self.conn.is_unclean()
    }

    /// Whether its next sandbox is ready. The proof comes only when it is.
    pub(super) fn is_stocked(&self) -> bool {
        if self.proves { self.conn.is_proven() } else { self.used.elapsed() >= REST }
    }

    /// Memory that the container takes while it is idle, in bytes.
    pub(super) fn weight(&self) -> u64 {
        self.conn.memory() + BESIDE
    }
}
