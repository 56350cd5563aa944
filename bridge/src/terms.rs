//! The terms of one SDK's connection: what bounds it, and what ends it from this side.

use std::sync::Arc;

use thermae_schemas::Event;
use tokio_util::sync::CancellationToken;

/// Counts the bytes that a connection holds in memory.
pub trait Holds: Send + Sync + 'static {
    /// The connection holds this many bytes from now on: payloads of requests under way, and frames that wait for the
    /// SDK. Says whether it may. It can hold them in any case.
    fn hold(&self, bytes: usize) -> bool;
}

/// Counts nothing.
struct Unbounded;

impl Holds for Unbounded {
    fn hold(&self, _: usize) -> bool {
        true
    }
}

/// Whether a connection may decide about calls that wait for approval.
#[derive(Debug, Clone)]
pub struct Approves {
    /// If not, decisions are refused (`missing_scope`).
    pub may: bool,
    /// Who decides, for the audit log.
    pub by: Option<String>,
}

/// The terms of a connection.
#[derive(Clone)]
pub struct Terms {
    /// Requests at once. Further ones are refused (`too_many_requests`).
    pub requests: usize,
    /// If it says no, a request is refused (`gateway_full`), or a slow SDK's connection ends (`too_slow`).
    pub holds: Arc<dyn Holds>,
    /// Whether it may decide about calls that wait for approval.
    pub approves: Approves,
    /// Ends the connection at once, as if the SDK were gone: its jobs are cancelled, unless they are detached.
    pub stop: CancellationToken,
    /// Ends the connection with the error `draining`. All its jobs go on, and can be followed elsewhere.
    pub drain: CancellationToken,
    /// Is told the result of each run that the connection follows, before the SDK is. It must return at once.
    pub told: Told,
}

/// Is told results of runs.
pub type Told = Arc<dyn Fn(&Event) + Send + Sync>;

impl Default for Terms {
    fn default() -> Self {
        let (stop, drain) = (CancellationToken::new(), CancellationToken::new());
        let approves = Approves { may: true, by: None };
        Self { requests: 16 << 10, holds: Arc::new(Unbounded), approves, stop, drain, told: Arc::new(|_| ()) }
    }
}

impl std::fmt::Debug for Terms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terms").field("requests", &self.requests).finish_non_exhaustive()
    }
}
