//! The worker: warm containers, attempts that count at most once, tool calls that are checked, sessions that last.
//!
//! ```text
//! consume ─▶ attempt ─▶ pool ─▶ conn ══ runner in its container
//!    │          │         └ backend: docker | native
//!    │          └ registry: start, finish        heartbeat ─ running ─ leases
//!    └▶ sessions ─▶ attempt ─▶ artifacts: the store of files
//! ```
//!
//! It knows no fairness between tenants (the scheduler's) and no sandbox (the runner's). It holds no job that it has not
//! started, but for those on its few slots; and what it has started it ends once, or leaves to the fleet to decide.

#![forbid(unsafe_code)]

mod answers;
mod artifacts;
mod attempt;
pub mod backend;
mod bundle;
mod clock;
mod config;
mod conn;
mod consume;
mod context;
mod fit;
mod heartbeat;
mod heavy;
#[cfg(test)]
mod hostile;
mod locked_dir;
mod memory;
mod metrics;
mod options;
mod orphans;
mod outcome;
mod pool;
mod running;
mod service;
mod sessions;
mod shelf;
mod stored;
mod tools;
mod watch;
mod wire;
mod work;

pub use artifacts::{ArtifactLimits, ArtifactOptions, Artifacts, Error as ArtifactsError, routes as artifact_routes};
pub use config::Config;
pub use options::{
    BackendKind, Bounds, DockerOptions, Invalid, LimitOptions, Limits, NativeOptions, Options, PoolOptions, Reuse,
};
pub use service::{Error, Parts, Service};
