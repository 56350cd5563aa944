//! The options of an embedded fleet, as an SDK writes them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value};
use thermae_fleet::{
    AnswerOptions, AuditOptions, ByteSize, EmbeddedOptions, Error, LimitOptions, Limits, Millis, TokenOptions, Unfit,
};
use thermae_schemas::object;

use crate::Refusal;

/// Most time that a job may ask for: a day.
const LONGEST: Millis = Millis::from_secs(24 * 3600);

/// Most processes that a job may ask for. No job on one machine needs more.
const MOST_PIDS: u32 = 4096;

/// Options of an embedded fleet: the keys of a pool, with the limits of jobs beside them.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Embedded {
    python: Option<PathBuf>,
    python_path: Option<Vec<PathBuf>>,
    slots: Option<u32>,
    warm: Option<u32>,
    spares: Option<u32>,
    preload: Option<Vec<String>>,
    preload_eager: Option<bool>,
    disk: Option<ByteSize>,
    cpu_quota: Option<u32>,
    datasets: BTreeMap<String, PathBuf>,
    max_sessions: Option<u32>,
    session_min_idle: Option<Millis>,
    record_ttl: Option<Millis>,
    store: Option<PathBuf>,
    audit: Option<PathBuf>,
    audit_redact: Vec<String>,
    answers_run_memory: Option<ByteSize>,
    answers_memory: Option<ByteSize>,
    answers_disk: Option<ByteSize>,
    answers_dir: Option<PathBuf>,
    token_keys: Option<PathBuf>,
    token_revoked: Option<PathBuf>,
    token_skew: Option<Millis>,
    /// The most that a job may ask for; by default, what the machine has.
    #[serde(deserialize_with = "object")]
    ceiling: Limit,
    wall: Option<Millis>,
    cpu: Option<Millis>,
    memory: Option<ByteSize>,
    pids: Option<u32>,
    output: Option<ByteSize>,
    tool_wait: Option<Millis>,
    pause: Option<Millis>,
}

/// One set of limits.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Limit {
    wall: Option<Millis>,
    cpu: Option<Millis>,
    memory: Option<ByteSize>,
    pids: Option<u32>,
    output: Option<ByteSize>,
    tool_wait: Option<Millis>,
    pause: Option<Millis>,
}

impl Embedded {
    /// Reads the options.
    ///
    /// # Errors
    /// The first option that can't be used, by its name.
    pub(crate) fn read(options: Map<String, Value>) -> Result<EmbeddedOptions, Refusal> {
        let asked: Self = serde_path_to_error::deserialize(Value::Object(options)).map_err(|error| {
            let path = error.path().to_string();
            let inner = error.inner().to_string();
            let named = path == "." || inner.contains(&format!("`{path}`"));
            Refusal::new("bad_option", if named { inner } else { format!("{path}: {inner}") })
        })?;
        asked.options()
    }

    fn options(self) -> Result<EmbeddedOptions, Refusal> {
        let default = EmbeddedOptions::default();
        let limits = self.limits(default.limits.clone(), machine_memory());
        let datasets = self.datasets.into_iter().map(|(name, path)| match std::fs::canonicalize(&path) {
            Ok(path) => Ok((name, path)),
            Err(error) => {
                let why = format!("datasets.{name}: can't read {}: {error}", path.display());
                Err(Refusal::new("bad_option", why))
            }
        });
        Ok(EmbeddedOptions {
            python: self.python.or(default.python),
            python_path: self.python_path.unwrap_or(default.python_path),
            slots: self.slots.or(default.slots),
            warm: self.warm.or(default.warm),
            spares: self.spares.unwrap_or(default.spares),
            preload: self.preload.unwrap_or(default.preload),
            preload_eager: self.preload_eager.unwrap_or(default.preload_eager),
            limits,
            disk: self.disk.unwrap_or(default.disk),
            cpu_quota: self.cpu_quota.or(default.cpu_quota),
            datasets: datasets.collect::<Result<_, _>>()?,
            max_sessions: self.max_sessions.unwrap_or(default.max_sessions),
            session_min_idle: self.session_min_idle.unwrap_or(default.session_min_idle),
            record_ttl: self.record_ttl.unwrap_or(default.record_ttl),
            store: self.store.or(default.store),
            audit: AuditOptions { file: self.audit, redact: self.audit_redact, ..default.audit },
            answers: AnswerOptions {
                run_memory: self.answers_run_memory.unwrap_or(default.answers.run_memory),
                memory: self.answers_memory.unwrap_or(default.answers.memory),
                disk: self.answers_disk.unwrap_or(default.answers.disk),
                dir: self.answers_dir.unwrap_or(default.answers.dir),
                ..default.answers
            },
            tokens: TokenOptions {
                keys: self.token_keys,
                revoked: self.token_revoked,
                skew: self.token_skew.unwrap_or(default.tokens.skew),
            },
        })
    }

    fn limits(&self, limits: LimitOptions, machine: ByteSize) -> LimitOptions {
        let LimitOptions { default, ceiling, grace } = limits;
        let default = Limits {
            wall: self.wall.unwrap_or(default.wall),
            cpu: self.cpu.unwrap_or(default.cpu),
            memory: self.memory.unwrap_or(default.memory),
            pids: self.pids.unwrap_or(default.pids),
            output: self.output.unwrap_or(default.output),
            tool_wait: self.tool_wait.unwrap_or(default.tool_wait),
            pause: self.pause.unwrap_or(default.pause),
        };
        let most = &self.ceiling;
        // What a job gets without asking, it may ask for.
        let ceiling = Limits {
            wall: most.wall.unwrap_or(LONGEST).max(default.wall),
            cpu: most.cpu.unwrap_or(LONGEST).max(default.cpu),
            memory: most.memory.unwrap_or(machine).max(default.memory),
            pids: most.pids.unwrap_or(MOST_PIDS).max(default.pids),
            output: most.output.unwrap_or(ceiling.output).max(default.output),
            tool_wait: most.tool_wait.unwrap_or(LONGEST).max(default.tool_wait),
            pause: most.pause.unwrap_or(LONGEST).max(default.pause),
        };
        LimitOptions { default, ceiling, grace }
    }
}

/// Why an embedded fleet can't start. An option of the pool is named as the SDK wrote it.
pub(crate) fn unfit(error: Error) -> Refusal {
    match &error {
        Error::Embedded(Unfit::Worker(thermae_worker::Error::Options(invalid))) => {
            let key = invalid.key.trim_start_matches("pools.default.").trim_start_matches("limits.default.");
            let key = key.trim_start_matches("limits.").replace("audit.redact", "audit_redact");
            let key = key.replace("tokens.", "token_");
            Refusal::new("bad_option", format!("{key}: {}", invalid.problem))
        }
        Error::Embedded(option @ (Unfit::Preload { .. } | Unfit::Dataset { .. })) => {
            Refusal::new("bad_option", option.to_string())
        }
        _ => error.into(),
    }
}

/// Memory of this machine.
fn machine_memory() -> ByteSize {
    let info = rustix::system::sysinfo();
    ByteSize(u64::from(info.mem_unit) * info.totalram)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(options: Value) -> Result<EmbeddedOptions, Refusal> {
        Embedded::read(options.as_object().unwrap().clone())
    }

    #[test]
    fn every_option_has_the_value_that_the_sdk_gave() {
        let dir = tempfile::tempdir().unwrap();
        let options = read(json!({
            "python": "/opt/python3", "slots": 3, "warm": 5, "spares": 7, "preload": ["polars"], "preload_eager": true,
            "python_path": ["/data/sales"], "store": "/srv/store",
            "audit": "/srv/audit.jsonl", "audit_redact": ["**/pin"],
            "answers_run_memory": "1MiB", "answers_memory": "2MiB", "answers_disk": "3MiB", "answers_dir": "/srv/answers",
            "token_keys": "/srv/keys", "token_revoked": "/srv/revoked", "token_skew": "5s", "disk": "11MiB", "cpu_quota": 150, "datasets": { "sales": dir.path() },
            "record_ttl": "13s", "max_sessions": 21, "session_min_idle": "9s",
            "wall": "2d", "cpu": 4000, "memory": "1GiB", "pids": 100, "output": 2048, "tool_wait": "1s", "pause": "2s",
            "ceiling": { "cpu": "9s", "memory": "2GiB", "pids": 50 },
        }))
        .unwrap();
        assert_eq!(options.python, Some("/opt/python3".into()));
        assert_eq!((options.slots, options.warm, options.spares), (Some(3), Some(5), 7));
        assert_eq!((options.preload.as_slice(), options.preload_eager), (&["polars".to_owned()][..], true));
        assert_eq!(options.python_path, ["/data/sales"].map(PathBuf::from));
        assert_eq!(options.store, Some("/srv/store".into()));
        assert_eq!(
            (options.audit.file, options.audit.redact),
            (Some("/srv/audit.jsonl".into()), vec!["**/pin".to_owned()])
        );
        let tokens = TokenOptions {
            keys: Some("/srv/keys".into()),
            revoked: Some("/srv/revoked".into()),
            skew: Millis::from_secs(5),
        };
        assert_eq!(options.tokens, tokens);
        let answers = AnswerOptions {
            run_memory: ByteSize::mib(1),
            memory: ByteSize::mib(2),
            disk: ByteSize::mib(3),
            dir: "/srv/answers".into(),
            ..AnswerOptions::default()
        };
        assert_eq!(options.answers, answers);
        assert_eq!((options.disk, options.cpu_quota), (ByteSize::mib(11), Some(150)));
        assert_eq!(options.datasets["sales"], dir.path().canonicalize().unwrap());
        assert_eq!(options.record_ttl, Millis::from_secs(13));
        assert_eq!((options.max_sessions, options.session_min_idle), (21, Millis::from_secs(9)));
        let (default, ceiling) = (options.limits.default, options.limits.ceiling);
        let day = Millis::from_secs(86400);
        assert_eq!(
            (default.wall, default.cpu, default.tool_wait, default.pause),
            (Millis::from_secs(172_800), Millis::from_secs(4), Millis::from_secs(1), Millis::from_secs(2))
        );
        assert_eq!((default.memory, default.pids, default.output), (ByteSize::gib(1), 100, ByteSize(2048)));
        assert_eq!(
            (ceiling.wall, ceiling.cpu, ceiling.tool_wait),
            (Millis::from_secs(172_800), Millis::from_secs(9), day)
        );
        assert_eq!((ceiling.memory, ceiling.pids, ceiling.output), (ByteSize::gib(2), 100, ByteSize::mib(8)));
    }

    #[test]
    fn without_options_jobs_get_the_defaults_and_may_ask_for_the_machine() {
        let options = read(json!({})).unwrap();
        assert_eq!(options.limits.default, LimitOptions::default().default);
        assert_eq!((options.limits.ceiling.memory, options.limits.ceiling.pids), (machine_memory(), MOST_PIDS));
        assert_eq!(options.limits.ceiling.wall, LONGEST);
    }

    #[test]
    fn an_option_that_can_not_be_used_is_named() {
        for (options, says) in [
            (json!({ "slotz": 1 }), "`slotz`"),
            (json!({ "slots": "many" }), "slots: "),
            (json!({ "memory": "lots" }), "memory: "),
            (json!({ "ceiling": { "wall": [] } }), "ceiling.wall: "),
            (json!({ "ceiling": { "walls": 1 } }), "`walls`"),
            (json!({ "datasets": { "sales": "/nonexistent/x" } }), "datasets.sales: can't read /nonexistent/x"),
        ] {
            let refusal = read(options).unwrap_err();
            assert!(refusal.code == "bad_option" && refusal.message.contains(says), "{refusal:?}");
        }
    }

    #[tokio::test]
    async fn an_option_that_the_pool_refuses_is_named_as_it_was_written() {
        for (options, says) in [(json!({ "slots": 0 }), "slots: must be"), (json!({ "memory": 0 }), "memory: must not")]
        {
            let options = read(options).unwrap();
            let mut worker = thermae_worker::Options::default();
            worker.pools.values_mut().for_each(|pool| *pool = options.pool());
            let invalid = worker.validate().unwrap_err();
            let refusal = unfit(Error::Embedded(Unfit::Worker(thermae_worker::Error::Options(invalid))));
            assert!(refusal.code == "bad_option" && refusal.message.starts_with(says), "{refusal:?}");
        }
    }
}
