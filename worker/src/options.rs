//! The options of a worker. Every option has a default. The reference page `docs/configuration.md` is generated from
//! the doc comments of these types.

mod answers;
mod backends;
mod bounds;
mod limits;
mod paths;
mod tokens;
mod validate;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thermae_backplane::registry::{Budget, Keep};
use thermae_schemas::{Language, PoolName};
use thermae_service::units::{ByteSize, Millis};

pub use answers::AnswerOptions;
pub use backends::{DockerOptions, NativeOptions};
pub use bounds::Bounds;
pub(crate) use limits::{Granted, Refused};
pub use limits::{LimitOptions, Limits};
pub use tokens::TokenOptions;
pub use validate::Invalid;

use crate::artifacts::{ArtifactLimits, ArtifactOptions};
use crate::audit::AuditOptions;

/// The options of a worker.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The worker's name. By default, the name of the host. The worker's id is this name and a random boot id.
    pub name: Option<String>,
    /// The fleet's name. Docker containers carry it as a label, so that a worker cleans up only after dead workers of
    /// its own fleet.
    pub fleet: String,
    /// The pools that this worker serves.
    pub pools: BTreeMap<PoolName, PoolOptions>,
    /// The Docker backend.
    pub docker: DockerOptions,
    /// The native backend.
    pub native: NativeOptions,
    /// Where artifacts are stored.
    pub artifacts: ArtifactOptions,
    /// The audit log.
    pub audit: AuditOptions,
    /// Answers to tool calls that runs have not read yet.
    pub answers: AnswerOptions,
    /// Capability tokens.
    pub tokens: TokenOptions,
    /// Directory in which the worker makes its own directory for the sockets of its containers, which only the worker's
    /// user can read. By default, the user's `XDG_RUNTIME_DIR`, or else the system's directory for temporary files.
    /// Choose a short path, because the length of a socket's path is limited.
    pub socket_dir: Option<PathBuf>,
    /// Time between two heartbeats. With a heartbeat, the worker tells Redis that it is alive and what it runs.
    pub heartbeat_every: Millis,
    /// How long running jobs may continue after the last heartbeat that reached Redis. After that, the worker kills
    /// them. At least twice `heartbeat_every`.
    pub lease: Millis,
    /// How long running jobs may continue after SIGTERM. After that, the worker kills them.
    pub drain_grace: Millis,
    /// How long Redis keeps a job's record after its last change. Make it at least an hour longer than the schedulers'
    /// `message_max_age`.
    pub record_ttl: Millis,
    /// How long the whole outcome of a job stays readable after the job has ended. After that, and until `record_ttl`,
    /// only how and when the job ended is known.
    pub outcome_ttl: Millis,
    /// Largest total size of the outcomes that Redis keeps, for all tenants together. An outcome that does not fit is
    /// sent once, and Redis does not keep it.
    pub outcome_bytes: ByteSize,
    /// Largest total size of the outcomes that Redis keeps for one tenant. An outcome that does not fit is sent once,
    /// and Redis does not keep it.
    pub tenant_outcome_bytes: ByteSize,
    /// Outcomes that are larger than this are kept in the store that `artifacts.store` names, and not in Redis. If no
    /// store is named, Redis keeps all outcomes.
    pub outcome_inline_bytes: ByteSize,
    /// Bytes per second of tool answers that no call waits for, which the worker accepts from one tenant, after a burst
    /// of 16 seconds' worth. Each answer counts as at least 4 KiB. A tenant that has used half of the burst gets its
    /// own queue. Beyond the limit, that queue waits, and RabbitMQ refuses further answers once it is full.
    pub refused_bytes: ByteSize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: None,
            fleet: "thermae".into(),
            pools: PoolName::new("default").map(|name| (name, PoolOptions::default())).into_iter().collect(),
            docker: DockerOptions::default(),
            native: NativeOptions::default(),
            artifacts: ArtifactOptions::default(),
            audit: AuditOptions::default(),
            answers: AnswerOptions::default(),
            tokens: TokenOptions::default(),
            socket_dir: None,
            heartbeat_every: Millis::from_secs(3),
            lease: Millis::from_secs(15),
            drain_grace: Millis::from_secs(30),
            record_ttl: Millis::from_secs(25 * 3600),
            outcome_ttl: Millis::from_secs(3600),
            outcome_bytes: ByteSize::mib(1024),
            tenant_outcome_bytes: ByteSize::mib(256),
            outcome_inline_bytes: ByteSize(64 << 10),
            refused_bytes: ByteSize::mib(1),
        }
    }
}

/// What makes the outer wall.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackendKind {
    /// Containers of the Docker engine.
    Docker,
    /// Namespaces of this machine. No container engine is needed.
    #[default]
    Native,
}

/// Which jobs may share a container, one after the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reuse {
    /// None. Each container runs one job.
    Job,
    /// Jobs of one tenant, each in a fresh sandbox.
    #[default]
    Tenant,
    /// All jobs, each in a fresh sandbox.
    Shared,
}

/// The options of one pool.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PoolOptions {
    /// What makes the containers (the outer wall): `docker` is the Docker engine, and `native` is the worker itself,
    /// with namespaces of this machine.
    pub backend: BackendKind,
    /// Image of the containers, for the Docker backend.
    pub image: String,
    /// Path of the Python interpreter. Docker: in the image; by default, the image's label `thermae.python`, or else
    /// `/usr/bin/python3`. Native: on this machine; by default, the interpreter of the active virtualenv, or else the
    /// one on `PATH`.
    pub python: Option<PathBuf>,
    /// Directories in the sandbox whose modules Python programs can import, such as `/data/packages`, which is the
    /// dataset `packages`. They come after the standard library and before the interpreter's own packages.
    pub python_path: Vec<PathBuf>,
    /// Languages that the pool runs: `python`, `bash` or both. A language that the containers lack is left out.
    pub languages: Vec<Language>,
    /// Number of jobs that run at the same time, from 1 to 4096. By default, twice the number of processors.
    pub slots: Option<u32>,
    /// Number of containers that are kept ready in addition to those in use, at least 1. By default, the same as
    /// `slots`.
    pub warm: Option<u32>,
    /// Memory for idle containers that wait for the next job of the tenant whose job they ran (`reuse = "tenant"`),
    /// counted by the processes of their runners and interpreters. Beyond it, or beyond 128 containers, the least
    /// recently used are removed, but as many stay as `slots` and `warm` together leave room for. By default, all pools
    /// share a quarter of the machine's memory equally, 8 GiB at most.
    pub bound_memory: Option<ByteSize>,
    /// Number of sandboxes that each container makes ahead of its jobs, for each of its zygotes.
    pub spares: u32,
    /// Modules that one of the zygotes (the loaded one) imports before jobs need them. Modules that the interpreter
    /// does not have are skipped.
    pub preload: Vec<String>,
    /// Whether the loaded zygote starts together with its container. If `false`, it starts when a job first imports one
    /// of the modules in `preload`.
    pub preload_eager: bool,
    /// Which jobs may share a container, one after the other, each in a fresh sandbox. `job`: none, so that each
    /// container runs one job. `tenant`: jobs of one tenant. `shared`: all jobs.
    pub reuse: Reuse,
    /// Number of jobs after which a container is replaced.
    pub retire_after_jobs: u32,
    /// Age at which a container is replaced, as soon as no job runs in it.
    pub retire_after: Millis,
    /// Whether each container must prove after each job that nothing of the job is left in it (processes, mounts,
    /// descriptors, memory). A container that can't is removed. The tenant's next job does not need to wait for the
    /// proof; with `reuse = "shared"`, every job waits for it.
    pub verify: bool,
    /// Number of sessions that the pool may hold at once. If this number is reached, a new session ends the session of
    /// the same tenant that was used longest ago (`session_evicted`), among those that nothing runs in and that were
    /// unused for `session_min_idle`. Its files are kept as a checkpoint if `artifacts.store` is set. If there is none,
    /// the job is rejected (`session_limit`).
    pub max_sessions: u32,
    /// How long a session must be unused before it may make room for another one.
    pub session_min_idle: Millis,
    /// How many of these sessions one tenant may hold. If this number is reached, the same rule applies. By default,
    /// half of `max_sessions`, rounded up, so that no tenant takes all.
    pub max_sessions_per_tenant: Option<u32>,
    /// Number of runs of the pool that may be paused at once. A paused run waits for tool calls and takes no slot, but
    /// keeps its container. If this number is reached, the wait of another run counts against its wall-clock time.
    pub max_paused: u32,
    /// How many of these runs may be one tenant's. By default, half of `max_paused`, rounded up.
    pub max_paused_per_tenant: Option<u32>,
    /// How long a session may be idle before it is closed. A job may ask for less, but not for more.
    pub session_idle: Millis,
    /// Number of containers that are made at the same time.
    pub create_parallel: u32,
    /// How long the runner of a new container (the program inside it that makes sandboxes) may take to connect. After
    /// that, it may take as long again to become ready.
    pub create_within: Millis,
    /// How long a job may wait for a container. After that, it goes back to its queue.
    pub acquire_within: Millis,
    /// Time between two health checks of a container.
    pub ping_every: Millis,
    /// How long a container may take to answer a health check. One that takes longer is removed.
    pub ping_within: Millis,
    /// Weight of a container when processors are short, from 2 to 262144. 1024 is the weight of one process outside of
    /// containers, and containers of the same weight get equal shares. Native containers have this weight only if the
    /// worker's process may make control groups.
    pub cpu_shares: u32,
    /// Processors that a container may use, in hundredths of one, from 1 to 100000 (50 is half a processor). By
    /// default, all of them. A job that has used up the quota waits for the rest of a tenth of a second. Native
    /// containers have a quota only if the worker's process may make control groups; the worker's log says if they have
    /// none.
    pub cpu_quota: Option<u32>,
    /// Bytes per second that the jobs of one tenant may move through the pool, after a burst of four seconds' worth:
    /// what they carry, stream, send to tools, get from tools and leave as outcomes. Beyond that, running jobs wait
    /// before more of their output is taken, and other jobs wait before they start. By default, 1 MiB for each slot.
    pub tenant_traffic: Option<ByteSize>,
    /// Memory of a container for its zygotes (the warm interpreters that jobs are forked from), in addition to the
    /// memory of one job (`limits.ceiling.memory`) and of its files (`disk`).
    pub overhead: ByteSize,
    /// Total size of the writable file systems of one sandbox.
    pub disk: ByteSize,
    /// Bounds on the artifacts that are collected from a job.
    pub artifacts: ArtifactLimits,
    /// How long the whole outcome of a job of this pool stays readable. By default, the worker's `outcome_ttl`.
    pub outcome_ttl: Option<Millis>,
    /// Directories or files that every sandbox can read at `/data/<name>`: a table of names and absolute paths. The
    /// paths are on this machine or, with Docker, on the engine's host.
    pub datasets: BTreeMap<String, PathBuf>,
    /// Limits for jobs that ask for none, and the most that a job may ask for.
    pub limits: LimitOptions,
    /// Bounds on what one job may display, call and leave behind.
    pub bounds: Bounds,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            backend: BackendKind::default(),
            image: "thermae/python:dev".into(),
            python: None,
            python_path: Vec::new(),
            languages: vec![Language::python(), Language::bash()],
            slots: None,
            warm: None,
            bound_memory: None,
            spares: 1,
            preload: vec!["numpy".into(), "pandas".into()],
            preload_eager: true,
            reuse: Reuse::default(),
            retire_after_jobs: 1000,
            retire_after: Millis::from_secs(30 * 60),
            verify: true,
            max_sessions: 16,
            session_min_idle: Millis::from_secs(30),
            max_sessions_per_tenant: None,
            max_paused: 64,
            max_paused_per_tenant: None,
            session_idle: Millis::from_secs(270),
            create_parallel: 2,
            create_within: Millis::from_secs(30),
            acquire_within: Millis::from_secs(30),
            ping_every: Millis::from_secs(10),
            ping_within: Millis::from_secs(10),
            cpu_shares: 1024,
            cpu_quota: None,
            tenant_traffic: None,
            overhead: ByteSize::mib(192),
            disk: ByteSize::mib(64),
            artifacts: ArtifactLimits::default(),
            outcome_ttl: None,
            datasets: BTreeMap::new(),
            limits: LimitOptions::default(),
            bounds: Bounds::default(),
        }
    }
}

impl PoolOptions {
    /// Number of jobs that run at the same time.
    pub fn slots(&self) -> u32 {
        // This asks the system only once, because it means reading files and every job needs the number.
        static DEFAULT: OnceLock<u32> = OnceLock::new();
        self.slots.unwrap_or_else(|| {
            *DEFAULT.get_or_init(|| 2 * std::thread::available_parallelism().map_or(1, |n| n.get() as u32))
        })
    }

    /// Bytes per second that one tenant's jobs may move.
    pub fn tenant_traffic(&self) -> u64 {
        self.tenant_traffic.map_or_else(|| u64::from(self.slots()) << 20, |size| size.0)
    }

    /// Number of sessions that one tenant may hold at once.
    pub fn max_sessions_per_tenant(&self) -> u32 {
        self.max_sessions_per_tenant.unwrap_or_else(|| self.max_sessions.div_ceil(2))
    }

    /// Number of runs of one tenant that may be paused at once.
    pub fn max_paused_per_tenant(&self) -> u32 {
        self.max_paused_per_tenant.unwrap_or_else(|| self.max_paused.div_ceil(2))
    }

    /// Number of containers that are kept ready in addition to those in use.
    pub fn warm(&self) -> u32 {
        self.warm.unwrap_or_else(|| self.slots())
    }
}

impl Options {
    /// How long, and within which budget, Redis keeps what a job of this pool leaves when it ends.
    pub(crate) fn keep(&self, pool: &PoolName) -> Keep {
        let outcome = self.pools.get(pool).and_then(|pool| pool.outcome_ttl).unwrap_or(self.outcome_ttl);
        let budget = Budget { tenant: self.tenant_outcome_bytes.0, all: self.outcome_bytes.0 };
        Keep { outcome: outcome.0, record: self.record_ttl.0, budget }
    }
}
