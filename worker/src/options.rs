//! What a worker can be told. Every key has a default; the reference page is generated from these types.

mod backends;
mod bounds;
mod limits;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thermae_backplane::registry::{Budget, Keep};
use thermae_schemas::{Language, PoolName};
use thermae_service::units::{ByteSize, Millis};

pub use backends::{DockerOptions, NativeOptions};
pub use bounds::Bounds;
pub(crate) use limits::Granted;
pub use limits::{LimitOptions, Limits};

use crate::artifacts::{ArtifactLimits, ArtifactOptions};

/// A worker's options.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The worker's name; its id is this and a random boot id. The host's name where it is missing.
    pub name: Option<String>,
    /// The fleet's name. It is on every container, and a worker clears away only what dead workers of its own fleet left.
    pub fleet: String,
    /// The pools that it serves.
    pub pools: BTreeMap<PoolName, PoolOptions>,
    /// The Docker backend.
    pub docker: DockerOptions,
    /// The native backend.
    pub native: NativeOptions,
    /// Where artifacts are stored.
    pub artifacts: ArtifactOptions,
    /// Directory below which the worker makes one, readable by nobody else, for its containers' sockets; where it is missing, the user's
    /// `XDG_RUNTIME_DIR`, else the system's directory for temporary files. Socket paths are short: keep it so, too.
    pub socket_dir: Option<PathBuf>,
    /// Time between heartbeats.
    pub heartbeat_every: Millis,
    /// How long jobs may go on without a heartbeat that arrives.
    pub lease: Millis,
    /// After SIGTERM: how long running jobs may take to end.
    pub drain_grace: Millis,
    /// How long a job's record is kept after its last change; at least an hour longer than the schedulers' `message_max_age`.
    pub record_ttl: Millis,
    /// How long a job's whole outcome stays readable after it ended. Then only how and when it ended is known, for `record_ttl`.
    pub outcome_ttl: Millis,
    /// Bytes of outcomes that are kept readable at once, of all tenants; what is more is told once and not kept.
    pub outcome_bytes: ByteSize,
    /// The same of one tenant.
    pub tenant_outcome_bytes: ByteSize,
    /// Outcomes with more bytes are kept in the store that `artifacts.store` names, and not in Redis. Without one, all
    /// are kept in Redis.
    pub outcome_inline_bytes: ByteSize,
    /// Bytes of answers to tool calls that no call waits for, taken from one tenant a second, after 16 seconds' worth at once. Each counts
    /// as 4 KiB at least. A tenant that sends more of them gets a queue of its own; that queue waits, and RabbitMQ refuses what is
    /// published to it once it is full.
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

/// What draws the outer wall.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackendKind {
    /// Containers of the Docker engine.
    Docker,
    /// Namespaces of this machine, no engine needed.
    #[default]
    Native,
}

/// Who may share a container, one after the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reuse {
    /// Nobody: one job per container, ever.
    Job,
    /// Jobs of one tenant, each in a fresh sandbox.
    #[default]
    Tenant,
    /// Any jobs, each in a fresh sandbox.
    Shared,
}

/// One pool.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PoolOptions {
    /// What draws the outer wall.
    pub backend: BackendKind,
    /// Image of the containers (Docker).
    pub image: String,
    /// Python interpreter. Docker: its path in the image, else the image's label `thermae.python`, else
    /// `/usr/bin/python3`. Native: that of the active virtualenv, else of `PATH`.
    pub python: Option<PathBuf>,
    /// Languages that it runs.
    pub languages: Vec<Language>,
    /// Jobs that run at once; twice the number of processors where it is missing.
    pub slots: Option<u32>,
    /// Containers kept ready beyond those in use; as many as slots where it is missing.
    pub warm: Option<u32>,
    /// Memory for idle containers that ran a tenant's job and wait for its next one (`reuse = "tenant"`), by what their runners' and
    /// interpreters' processes hold; each of them is warm for that tenant alone. What does not fit goes, least recently used first; where
    /// there is little, they still have what `slots` and `warm` leave, and never more than 128 of a pool are kept. A quarter of the machine's
    /// memory where it is missing, 8 GiB at most, all pools together.
    pub bound_memory: Option<ByteSize>,
    /// Sandboxes that each container makes ahead of its jobs, per zygote.
    pub spares: u32,
    /// Modules that the loaded zygote imports ahead; those that the interpreter lacks are skipped.
    pub preload: Vec<String>,
    /// Whether the loaded zygote starts with the container (or when a job first imports one of the modules).
    pub preload_eager: bool,
    /// Who may share a container.
    pub reuse: Reuse,
    /// Jobs after which a container is replaced.
    pub retire_after_jobs: u32,
    /// Age at which a container is replaced.
    pub retire_after: Millis,
    /// Prove after each job that nothing of it is left in its container (processes, mounts, descriptors, memory), and remove a
    /// container that can't. A tenant's next job need not wait for the proof; with `reuse = "shared"` it does.
    pub verify: bool,
    /// Sessions that it may hold at once.
    pub max_sessions: u32,
    /// Sessions that one tenant may hold of them; then each new one ends the one of its own that idled longest. Half of `max_sessions`
    /// where it is missing, so that no tenant takes all.
    pub max_sessions_per_tenant: Option<u32>,
    /// How long a session may idle before it is closed.
    pub session_idle: Millis,
    /// Containers made at once.
    pub create_parallel: u32,
    /// How long the making of a container may take.
    pub create_within: Millis,
    /// How long a job may wait for a container before it goes back to its queue.
    pub acquire_within: Millis,
    /// Time between health checks of a container.
    pub ping_every: Millis,
    /// How long a container may take to answer one.
    pub ping_within: Millis,
    /// Weight of a container where processors are short. 1024 is the weight of one process outside, and containers of
    /// one weight have equal shares. From 2 to 262144. Native containers have it where this process may make control
    /// groups.
    pub cpu_shares: u32,
    /// Processors that a container may use, in hundredths of one (50 is half a processor); all of them where it is missing. A job that
    /// has used it up waits for the rest of a tenth of a second. Native containers have it where this process may make control groups; the
    /// worker's log says where it does not hold.
    pub cpu_quota: Option<u32>,
    /// Bytes a second that the jobs of one tenant may carry, stream, send to tools, get from them and leave as
    /// outcomes, after four seconds' worth at once. Beyond that they wait: those that run before more output is taken
    /// from them, the others before they start. A mebibyte for each slot where it is missing.
    pub tenant_traffic: Option<ByteSize>,
    /// Memory of a container for its zygotes, beyond that of one job and its files.
    pub overhead: ByteSize,
    /// Size of a sandbox's writable file systems together.
    pub disk: ByteSize,
    /// How much is collected of what a run leaves.
    pub artifacts: ArtifactLimits,
    /// How long an outcome of its jobs stays readable, whole; the worker's `outcome_ttl` where it is missing.
    pub outcome_ttl: Option<Millis>,
    /// Directories or files of this machine (Docker: of the engine's), by names: every sandbox reads them at `/data/<name>`.
    pub datasets: BTreeMap<String, PathBuf>,
    /// Limits of jobs that ask for none, and the most that a job may ask for.
    pub limits: LimitOptions,
    /// What one job may display, call and leave behind.
    pub bounds: Bounds,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            backend: BackendKind::default(),
            image: "thermae/python:dev".into(),
            python: None,
            languages: vec![Language::Python],
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
            max_sessions_per_tenant: None,
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
    /// Jobs that run at once.
    pub fn slots(&self) -> u32 {
        // Asking the system means reading files, and this is on every job's way.
        static DEFAULT: OnceLock<u32> = OnceLock::new();
        self.slots.unwrap_or_else(|| {
            *DEFAULT.get_or_init(|| 2 * std::thread::available_parallelism().map_or(1, |n| n.get() as u32))
        })
    }

    /// Bytes a second that one tenant's jobs may move.
    pub fn tenant_traffic(&self) -> u64 {
        self.tenant_traffic.map_or_else(|| u64::from(self.slots()) << 20, |size| size.0)
    }

    /// Sessions that one tenant may hold at once.
    pub fn max_sessions_per_tenant(&self) -> u32 {
        self.max_sessions_per_tenant.unwrap_or_else(|| self.max_sessions.div_ceil(2))
    }

    /// Containers kept ready beyond those in use.
    pub fn warm(&self) -> u32 {
        self.warm.unwrap_or_else(|| self.slots())
    }
}

/// An option that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct Invalid {
    /// Path of the key.
    pub key: String,
    /// What is wrong with its value.
    pub problem: String,
}

impl Options {
    /// What is kept of a job of that pool that ends.
    pub(crate) fn keep(&self, pool: &PoolName) -> Keep {
        let outcome = self.pools.get(pool).and_then(|pool| pool.outcome_ttl).unwrap_or(self.outcome_ttl);
        let budget = Budget { tenant: self.tenant_outcome_bytes.0, all: self.outcome_bytes.0 };
        Keep { outcome: outcome.0, record: self.record_ttl.0, budget }
    }

    /// Checks what types can't.
    ///
    /// # Errors
    /// The first key whose value can't be used.
    pub fn validate(&self) -> Result<(), Invalid> {
        let check = |ok: bool, key: String, problem: &str| {
            if ok { Ok(()) } else { Err(Invalid { key, problem: problem.to_owned() }) }
        };
        check(!self.pools.is_empty(), "pools".into(), "a worker needs one pool at least")?;
        check(!self.heartbeat_every.0.is_zero(), "heartbeat_every".into(), "must not be zero")?;
        check(
            self.lease.0 >= self.heartbeat_every.0 * 2,
            "lease".into(),
            "must be twice heartbeat_every at least, or one late heartbeat kills every job",
        )?;
        check(
            self.artifacts.keep.is_none_or(|keep| keep.0 >= self.artifacts.url_ttl.0.max(self.record_ttl.0)),
            "artifacts.keep".into(),
            "must be as long as artifacts.url_ttl and record_ttl at least: until then somebody may ask for it",
        )?;
        check(self.refused_bytes.0 > 0, "refused_bytes".into(), "must not be zero")?;
        check(self.docker.uids > 0, "docker.uids".into(), "must not be zero")?;
        check(self.docker.first_uid > 0, "docker.first_uid".into(), "must not be root")?;
        check(
            self.docker.first_uid.checked_add(self.docker.uids).is_some_and(|end| end < u32::MAX),
            "docker.uids".into(),
            "the last of them is beyond what the kernel numbers users by",
        )?;
        for (name, pool) in &self.pools {
            let key = |k: &str| format!("pools.{name}.{k}");
            check(pool.slots() > 0 && pool.slots() <= 4096, key("slots"), "must be 1 to 4096")?;
            check(
                pool.warm() > 0,
                key("warm"),
                "must not be zero: that a container can be made is shown by making one",
            )?;
            check(pool.create_parallel > 0, key("create_parallel"), "must not be zero")?;
            check(pool.max_sessions_per_tenant != Some(0), key("max_sessions_per_tenant"), "must not be zero")?;
            check((2..=262_144).contains(&pool.cpu_shares), key("cpu_shares"), "must be 2 to 262144")?;
            // Less than a thousandth of a second in each period is refused by the kernel.
            check(pool.cpu_quota.is_none_or(|n| (1..=100_000).contains(&n)), key("cpu_quota"), "must be 1 to 100000")?;
            check(pool.tenant_traffic() > 0, key("tenant_traffic"), "must not be zero")?;
            check(pool.retire_after_jobs > 0, key("retire_after_jobs"), "must not be zero")?;
            check(!pool.ping_every.0.is_zero(), key("ping_every"), "must not be zero")?;
            check(!pool.languages.is_empty(), key("languages"), "must not be empty")?;
            for language in &pool.languages {
                check(*language == Language::Python, key("languages"), "python is the only language yet")?;
            }
            for (dataset, path) in &pool.datasets {
                let key = key(&format!("datasets.{dataset}"));
                let plain = dataset.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
                let named = plain && !dataset.starts_with('.') && (1..=64).contains(&dataset.len());
                check(
                    named,
                    key.clone(),
                    "the name is 1 to 64 letters, digits, '-', '_' or '.', and begins with no '.'",
                )?;
                check(path.is_absolute() && path.to_str().is_some(), key, "must be an absolute path, in UTF-8")?;
            }
            pool.bounds.validate().map_err(|(k, problem)| Invalid { key: key(&format!("bounds.{k}")), problem })?;
            pool.limits.validate().map_err(|(k, problem)| Invalid { key: key(&format!("limits.{k}")), problem })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        Options::default().validate().unwrap();
    }

    #[test]
    fn a_dataset_has_a_plain_name_and_an_absolute_path() {
        let problem = |name: &str, path: &str| {
            let mut options = Options::default();
            for pool in options.pools.values_mut() {
                pool.datasets.insert(name.into(), path.into());
            }
            options.validate().err().map(|invalid| invalid.key)
        };
        assert_eq!(problem("sales-2024.csv", "/srv/sales"), None);
        for (name, path) in [("..", "/srv"), ("a/b", "/srv"), ("", "/srv"), (".x", "/srv"), ("a", "srv")] {
            assert_eq!(problem(name, path), Some(format!("pools.default.datasets.{name}")));
        }
    }

    #[test]
    fn a_limit_above_its_ceiling_is_named_by_its_key() {
        let mut options = Options::default();
        for pool in options.pools.values_mut() {
            pool.limits.default.wall = Millis::from_secs(3600);
        }
        assert_eq!(options.validate().unwrap_err().key, "pools.default.limits.default.wall");
    }
}
