//! The options of the embedded fleet. Each has the name of the worker's own key that it sets.

use std::collections::BTreeMap;
use std::path::PathBuf;

use thermae_service::units::{ByteSize, Millis};
use thermae_worker::audit::AuditOptions;
use thermae_worker::{AnswerOptions, BackendKind, LimitOptions, PoolOptions, TokenOptions};

/// A rate that no tenant reaches.
pub(crate) const UNBOUNDED: ByteSize = ByteSize(u64::MAX >> 1);

/// Options of the embedded fleet. All but `record_ttl`, `store`, `audit`, `answers` and `tokens` are those of the only pool,
/// `default`, and have the names of its keys in a worker's configuration.
///
/// ```
/// use thermae_fleet::{ByteSize, EmbeddedOptions, Millis};
///
/// let mut options = EmbeddedOptions {
///     python: Some("/opt/agents/bin/python3".into()),
///     slots: Some(4),
///     spares: 2,
///     preload: vec!["polars".into()],
///     datasets: [("sales".into(), "/srv/sales".into())].into(),
///     ..EmbeddedOptions::default()
/// };
/// options.limits.default.wall = Millis::from_secs(10);
/// options.limits.ceiling.memory = ByteSize::gib(1);
/// assert_eq!(options.pool().limits.ceiling.memory, ByteSize::gib(1));
/// ```
#[derive(Debug, Clone)]
pub struct EmbeddedOptions {
    /// Python interpreter for the sandboxes; by default, the active virtualenv's, otherwise `python3` on `PATH`.
    pub python: Option<PathBuf>,
    /// Directories in the sandbox whose modules Python programs can import, such as `/data/packages` for the dataset
    /// `packages`. They come before the interpreter's own packages.
    pub python_path: Vec<PathBuf>,
    /// Number of jobs that run at once, from 1 to 4096; by default, twice the number of processors.
    pub slots: Option<u32>,
    /// Number of containers that are kept ready in addition to those in use, at least 1; by default, the same as
    /// `slots`.
    pub warm: Option<u32>,
    /// Number of sandboxes that each container makes ahead of its jobs, for each of its zygotes.
    pub spares: u32,
    /// Modules that are imported before jobs need them, by default `numpy` and `pandas`. If the interpreter does
    /// not have one of others, the fleet does not start.
    pub preload: Vec<String>,
    /// Whether to import `preload` at once, instead of when the first job needs it, which is the default.
    pub preload_eager: bool,
    /// Limits for jobs that ask for none (`limits.default`), and the most that a job may ask for (`limits.ceiling`).
    /// The containers' size follows from the ceilings of memory and pids.
    pub limits: LimitOptions,
    /// Size of all writable file systems of a sandbox together.
    pub disk: ByteSize,
    /// Processors that a container may use, in hundredths of one, from 1 to 100000 (50 is half a processor); by
    /// default, all of them. Containers have a quota only if this process may make control groups.
    pub cpu_quota: Option<u32>,
    /// Files and folders of this machine that jobs find at `/data/<name>`, read-only. The paths must be absolute.
    pub datasets: BTreeMap<String, PathBuf>,
    /// Number of sessions that may live at once. If this number is reached, a new session ends the one that was used
    /// longest ago, if it was unused for `session_min_idle`. If there is none, its job is rejected.
    pub max_sessions: u32,
    /// How long a session must be unused before it may make room for another one.
    pub session_min_idle: Millis,
    /// How long the outcome of a job is kept for a second submit with its id. Outcomes are kept in this process's
    /// memory, so the default is ten minutes, which is shorter than a worker's.
    pub record_ttl: Millis,
    /// Folder where artifacts and the checkpoints of sessions are stored, an absolute path. They stay when the fleet is
    /// closed. By default, artifacts are in a temporary folder, and there are no checkpoints.
    pub store: Option<PathBuf>,
    /// The audit log of tool calls.
    pub audit: AuditOptions,
    /// How much is kept of the answers to tool calls that runs have not read. The fleet has only one tenant, which may
    /// have all: the bounds of a tenant have no effect.
    pub answers: AnswerOptions,
    /// Which capability tokens jobs may use.
    pub tokens: TokenOptions,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        let pool = PoolOptions::default();
        Self {
            python: pool.python,
            python_path: pool.python_path,
            slots: pool.slots,
            warm: pool.warm,
            spares: pool.spares,
            preload: pool.preload,
            preload_eager: false,
            limits: pool.limits,
            disk: pool.disk,
            cpu_quota: pool.cpu_quota,
            datasets: pool.datasets,
            max_sessions: pool.max_sessions,
            session_min_idle: pool.session_min_idle,
            record_ttl: Millis::from_secs(600),
            store: None,
            audit: AuditOptions::default(),
            answers: AnswerOptions::default(),
            tokens: TokenOptions::default(),
        }
    }
}

impl EmbeddedOptions {
    /// Options of the pool that the sandboxes come from.
    pub fn pool(&self) -> PoolOptions {
        // Every field is named, so that none can be forgotten.
        let Self {
            python,
            python_path,
            slots,
            warm,
            spares,
            preload,
            preload_eager,
            limits,
            disk,
            cpu_quota,
            datasets,
            max_sessions,
            session_min_idle,
            record_ttl: _,
            store: _,
            audit: _,
            answers: _,
            tokens: _,
        } = self.clone();
        let default = PoolOptions::default();
        PoolOptions {
            backend: BackendKind::Native,
            python,
            python_path,
            slots,
            warm,
            spares,
            preload,
            preload_eager,
            limits,
            disk,
            cpu_quota,
            datasets,
            max_sessions,
            session_min_idle,
            // The fleet has only one tenant.
            max_sessions_per_tenant: Some(max_sessions),
            // Nothing is shared with other tenants.
            tenant_traffic: Some(UNBOUNDED),
            ..default
        }
    }

    /// Options of the worker that has this pool.
    pub(crate) fn worker(&self) -> thermae_worker::Options {
        let answers = self.answers.clone();
        let mut worker = thermae_worker::Options {
            name: Some("embedded".to_owned()),
            // When the fleet is closed, nobody waits for running jobs.
            drain_grace: Millis::from_millis(0),
            record_ttl: self.record_ttl,
            outcome_ttl: self.record_ttl,
            audit: self.audit.clone(),
            tokens: self.tokens.clone(),
            // Nothing is shared with other tenants.
            refused_bytes: UNBOUNDED,
            answers: AnswerOptions { tenant_memory: answers.memory, tenant_disk: answers.disk, ..answers },
            ..thermae_worker::Options::default()
        };
        worker.artifacts.store = self.store.as_ref().map(|path| format!("file://{}", path.display()));
        for pool in worker.pools.values_mut() {
            *pool = self.pool();
        }
        worker
    }
}

#[cfg(test)]
mod tests {
    use thermae_worker::Limits;

    use super::*;

    #[test]
    fn every_option_reaches_the_worker() {
        let limits = LimitOptions {
            default: Limits { wall: Millis::from_secs(5), cpu: Millis::from_secs(4), ..Limits::default() },
            ceiling: Limits { memory: ByteSize::gib(2), pids: 100, ..Limits::default() },
            grace: Millis::from_millis(500),
        };
        let options = EmbeddedOptions {
            python: Some("/opt/python3".into()),
            slots: Some(3),
            warm: Some(5),
            spares: 7,
            preload: vec!["polars".into()],
            python_path: vec!["/data/sales".into()],
            preload_eager: true,
            limits: limits.clone(),
            disk: ByteSize::mib(11),
            cpu_quota: Some(150),
            datasets: [("sales".into(), "/srv/sales".into())].into(),
            max_sessions: 21,
            session_min_idle: Millis::from_secs(9),
            record_ttl: Millis::from_secs(13),
            store: Some("/srv/store".into()),
            audit: AuditOptions { file: Some("/srv/audit.jsonl".into()), ..AuditOptions::default() },
            answers: AnswerOptions {
                run_memory: ByteSize::mib(1),
                memory: ByteSize::mib(2),
                disk: ByteSize::mib(3),
                dir: "/srv/answers".into(),
                ..AnswerOptions::default()
            },
            tokens: TokenOptions { keys: Some("/srv/keys".into()), ..TokenOptions::default() },
        };
        let worker = options.worker();
        worker.validate().unwrap();
        assert_eq!((worker.record_ttl, worker.outcome_ttl), (Millis::from_secs(13), Millis::from_secs(13)));
        assert_eq!(worker.artifacts.store.as_deref(), Some("file:///srv/store"));
        assert_eq!(worker.audit.file, options.audit.file);
        assert_eq!(worker.tokens, options.tokens);
        let all = AnswerOptions { tenant_memory: ByteSize::mib(2), tenant_disk: ByteSize::mib(3), ..options.answers };
        assert_eq!(worker.answers, all, "the only tenant may have all");
        assert_eq!(worker.pools.len(), 1);
        let pool = worker.pools.values().next().unwrap();
        assert_eq!(pool.backend, BackendKind::Native);
        assert_eq!(pool.python, Some("/opt/python3".into()));
        assert_eq!((pool.slots(), pool.warm(), pool.spares), (3, 5, 7));
        assert_eq!((pool.preload.as_slice(), pool.preload_eager), (&["polars".to_owned()][..], true));
        assert_eq!(pool.python_path, options.python_path);
        assert_eq!((&pool.limits.default, &pool.limits.ceiling), (&limits.default, &limits.ceiling));
        assert_eq!(pool.limits.grace, limits.grace);
        assert_eq!((pool.disk, pool.cpu_quota), (ByteSize::mib(11), Some(150)));
        assert_eq!((pool.max_sessions, pool.max_sessions_per_tenant()), (21, 21));
        assert_eq!(pool.session_min_idle, Millis::from_secs(9));
        assert_eq!(pool.datasets, options.datasets);
    }

    #[test]
    fn the_defaults_are_a_workers_own() {
        EmbeddedOptions::default().worker().validate().unwrap();
        let (ours, default) = (EmbeddedOptions::default().pool(), PoolOptions::default());
        assert_eq!((ours.disk, ours.spares, ours.preload), (default.disk, default.spares, default.preload));
        assert_eq!(ours.limits.ceiling, default.limits.ceiling);
    }
}
