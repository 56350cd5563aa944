//! The first frame: how a container is set up.

use serde::{Deserialize, Serialize};

use super::ArtifactLimits;
#[cfg(doc)]
use super::{Run, WIRE};

/// First frame, worker to runner: how to set up the container.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Setup {
    /// Must be [`WIRE`].
    pub wire: u32,
    /// The languages that programs may be written in. A language that the container lacks is reported.
    pub languages: Vec<LanguageSetup>,
    /// Sandboxes made ahead of jobs (spares), for each zygote that a program was forked from or will be.
    pub spares: u32,
    /// Size of each sandbox's writable file systems together, in bytes (`/tmp`, `/workspace`, `/session`, `/dev/shm`).
    pub disk_bytes: u64,
    /// Bounds on the files that are collected from a run.
    pub artifacts: ArtifactLimits,
    /// Ceiling: a run's limits above these are lowered to them.
    pub ceiling: Limits,
    /// Whether to build the inner wall. If not, each job is a process without a sandbox, and the container must run one
    /// job only (reuse policy `job`).
    pub nested: bool,
}

/// A language that programs may be written in.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LanguageSetup {
    /// Its name, as in [`Run::language`].
    pub name: String,
    /// What the language's folder in the runner calls its `Options`; nothing if it has none.
    #[serde(default)]
    pub options: serde_json::Value,
}

/// Limits of one run. Zero is refused, except for [`Limits::grace_ms`], [`Limits::pause_ms`] and
/// [`Limits::pause_after_ms`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Wall-clock time, in milliseconds, without the time that counts against [`Limits::pause_ms`]. Then the code is
    /// interrupted (`KeyboardInterrupt`), and killed [`Limits::grace_ms`] later.
    pub wall_ms: u64,
    /// Time that the run may wait for answers of its tool calls without using up its wall-clock time, in milliseconds.
    /// Further waiting counts against the wall clock.
    pub pause_ms: u64,
    /// How long a wait lasts before the run's process is stopped ([`Kind::Waits`](super::Kind::Waits)), in
    /// milliseconds.
    pub pause_after_ms: u64,
    /// Time between the interrupt and the kill, in milliseconds.
    pub grace_ms: u64,
    /// CPU time of all processes of the run together, in milliseconds.
    pub cpu_ms: u64,
    /// Memory of all processes of the job together, shared memory included, beyond what the zygote holds. In bytes.
    pub memory_bytes: u64,
    /// Number of processes and threads.
    pub pids: u32,
    /// Standard output and standard error together, in bytes.
    pub output_bytes: u64,
}
