//! The worker: takes jobs from RabbitMQ, runs each in a container, and publishes its outcome. The program
//! `thermae-worker` and the embedded fleet run it.
//!
//! ```text
//! consume ─▶ attempt ─▶ pool ─▶ conn ══ runner in its container
//!    │          │         └ backend: docker | native
//!    │          └ registry: start, finish        heartbeat ─ running ─ leases
//!    └▶ sessions ─▶ attempt ─▶ artifacts: the store of files
//! ```
//!
//! The worker knows nothing about fairness between tenants (the scheduler does) or about sandboxes (the runner does).
//! It takes few jobs before it can start them. A job that it has started ends once, or is left to `resolve`. This
//! library makes native containers itself. `thermae-docker` makes Docker's, for programs that give it to [`Parts`].

#![forbid(unsafe_code)]

mod artifacts;
mod attempt;
pub mod audit;
pub mod backend;
mod bundle;
mod clock;
mod config;
mod conn;
mod consume;
mod context;
mod course;
mod ended;
mod error;
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
mod pending;
mod phase;
mod pool;
mod pulse;
mod requests;
mod retention;
mod running;
mod runs;
mod service;
mod sessions;
mod shelf;
mod shelving;
mod stored;
mod told;
mod tools;
mod watch;
mod wire;
mod work;

pub use artifacts::{ArtifactLimits, ArtifactOptions, Artifacts, Error as ArtifactsError, routes as artifact_routes};
pub use config::Config;
pub use error::Error;
pub use options::{
    AnswerOptions, BackendKind, Bounds, DockerOptions, Invalid, LimitOptions, Limits, NativeOptions, Options,
    PoolOptions, Reuse, TokenOptions,
};
pub use service::{Parts, Service};
pub use tools::check_tools;
