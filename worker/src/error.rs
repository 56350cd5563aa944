//! Why a worker can't be made, or can't go on. Errors that may pass (such as a server that is away) are not here: the
//! worker waits.

use std::path::PathBuf;

use thermae_schemas::PoolName;
use thermae_service::supervise::Panicked;

use crate::options::Invalid;
use crate::{artifacts, backend};

/// Why a worker can't be made, or can't go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option can't be used.
    #[error("the worker's options can't be used")]
    Options(#[from] Invalid),
    /// A backend can't be set up.
    #[error("the pool {pool} can't be set up")]
    Backend {
        /// Name of the pool.
        pool: PoolName,
        /// The cause.
        #[source]
        source: backend::Error,
    },
    /// The store for artifacts can't be used.
    #[error("the store for artifacts can't be used")]
    Artifacts(#[from] artifacts::Error),
    /// The audit log can't be written.
    #[error("the audit log {file} can't be written")]
    Audit {
        /// The file.
        file: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The public keys or the revocations of tokens can't be read.
    #[error("the keys of capability tokens can't be used")]
    Tokens(#[from] thermae_tokens::TrustError),
    /// The directory for sockets can't be made.
    #[error("the directory for the containers' sockets can't be made")]
    Sockets(#[source] std::io::Error),
    /// An essential task panicked.
    #[error("the worker can't go on")]
    Panicked(#[from] Panicked),
    /// A pool's containers have no inner wall, and its options do not allow that.
    #[error(
        "the pool {pool} has only one wall, but should have two ({why}). `thermae doctor` says what the machine lacks; \
         on hosts with AppArmor, load images/apparmor/thermae. If one wall is enough, set pools.{pool}.reuse = \
         \"job\", or name a docker.runtime with a kernel of its own"
    )]
    NoInnerWall {
        /// Name of the pool.
        pool: PoolName,
        /// What the runner reported.
        why: String,
    },
    /// A metric with the same name is already registered.
    #[error("the metrics can't be registered")]
    Metrics(#[from] prometheus::Error),
}
