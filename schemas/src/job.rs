//! A job: one request to run one program.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ArtifactRequest, InputFile, JobId, PoolName, SessionName, Stream};

/// One request to run one program. Unknown fields are refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("anyOf" = [
    {"required": ["code"]},
    {"required": ["session"], "properties": {"session": {"required": ["close"], "properties": {"close": {"const": true}}}}},
]))]
pub struct Job {
    /// Version of the wire; 1 where it is missing.
    #[serde(default = "crate::first_protocol")]
    pub protocol: u32,
    /// The job's name, unique in its tenant. Submitting it again, unchanged, never runs it twice.
    pub id: JobId,
    /// What the code is written in.
    #[serde(default)]
    pub language: Language,
    /// The program. Only a job that closes its session may come without one.
    #[serde(default)]
    pub code: String,
    /// Where it runs; `default` where it is missing.
    #[serde(default = "default_pool")]
    pub pool: PoolName,
    /// How urgent it is among its tenant's own jobs.
    #[serde(default)]
    pub class: Class,
    /// The session it runs in; none means a fresh sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionRequest>,
    /// Limits below the pool's own.
    #[serde(default)]
    pub limits: LimitRequest,
    /// Functions of the client's that the code may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    /// Events wanted while it runs; the result always comes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stream: Vec<Stream>,
    /// How often the code may be *started*. Above 1 only for code that may safely run twice.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100))]
    pub max_attempts: u32,
    /// Given up (`rejected`) when it has not started this many milliseconds after it was submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400_000))]
    pub start_within_ms: Option<u64>,
    /// Fed to standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Files that the code finds below `/workspace`. In a session they are written over what is there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<InputFile>,
    /// What is wanted of the files that the code leaves in `/workspace/artifacts`.
    #[serde(default, skip_serializing_if = "ArtifactRequest::is_default")]
    pub artifacts: ArtifactRequest,
    /// Environment variables for the code.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Jobs with the same key are one job: later ones get the first one's outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub idempotency_key: Option<String>,
    /// The client's own marks; carried along, never read.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

fn one() -> u32 {
    1
}

fn default_pool() -> PoolName {
    PoolName::new("default").unwrap_or_else(|_| unreachable!("'default' is a valid name"))
}

/// Whether a text that was read as this job lacks the code that it must have. Serde can't tell a job without code from one
/// whose code is empty, which is sound.
pub fn lacks_code(job: &Job, text: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Named {
        code: Option<serde::de::IgnoredAny>,
    }
    job.code.is_empty()
        && !job.session.as_ref().is_some_and(|session| session.close)
        && serde_json::from_slice::<Named>(text).is_ok_and(|named| named.code.is_none())
}

impl Job {
    /// A Python job with a new id and every default.
    pub fn python(code: impl Into<String>) -> Self {
        Self {
            protocol: crate::PROTOCOL,
            id: JobId::random(),
            language: Language::Python,
            code: code.into(),
            pool: default_pool(),
            class: Class::default(),
            session: None,
            limits: LimitRequest::default(),
            tools: Vec::new(),
            stream: Vec::new(),
            max_attempts: 1,
            start_within_ms: None,
            stdin: None,
            files: Vec::new(),
            artifacts: ArtifactRequest::default(),
            env: BTreeMap::new(),
            idempotency_key: None,
            labels: BTreeMap::new(),
        }
    }
}

/// What the code is written in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// Python 3.
    #[default]
    Python,
    /// JavaScript; no pool runs it yet (`unsupported_language`).
    Javascript,
    /// Shell; no pool runs it yet (`unsupported_language`).
    Shell,
}

impl Language {
    /// The name as it stands on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Javascript => "javascript",
            Self::Shell => "shell",
        }
    }
}

/// How urgent a job is among its tenant's own; it takes nothing from other tenants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Somebody waits for it.
    High,
    /// The default.
    #[default]
    Normal,
    /// Nobody waits for it.
    Low,
}

impl Class {
    /// All, the most urgent first.
    pub const ALL: [Class; 3] = [Class::High, Class::Normal, Class::Low];

    /// The name as it stands in queue names.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Normal => "normal",
            Self::Low => "low",
        }
    }
}

/// The session that a job runs in. The first job of a session makes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionRequest {
    /// Its name, unique in the tenant.
    pub id: SessionName,
    /// What to do when it existed and is gone (lost with its worker, or expired).
    #[serde(default)]
    pub if_gone: IfGone,
    /// Begin anew under this name: whatever the session held, if it lives, is given up when this job starts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reset: bool,
    /// Close the session when this job has ended, however it ended. Its name is free from then on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub close: bool,
    /// From this job on the session is closed when it has idled for so many milliseconds; the pool's `session_idle`, which is
    /// also the most, where no job of the session has said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub idle_ms: Option<u64>,
}

impl SessionRequest {
    /// A request for the session of that name; when it is gone the job fails.
    pub fn new(id: SessionName) -> Self {
        Self { id, if_gone: IfGone::Fail, reset: false, close: false, idle_ms: None }
    }

    /// What to do when it is gone, a wish to begin anew included.
    pub fn if_gone(&self) -> IfGone {
        if self.reset { IfGone::New } else { self.if_gone }
    }
}

/// What to do when a session existed and is gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IfGone {
    /// Reject the job with `session_lost` or `session_expired`. Never silently a new one.
    #[default]
    Fail,
    /// Make a new, empty one under the same name; the outcome says so.
    New,
}

/// Limits that a job asks for, each below its pool's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitRequest {
    /// Wall clock, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub wall_ms: Option<u64>,
    /// CPU time, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub cpu_ms: Option<u64>,
    /// Memory, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub memory_bytes: Option<u64>,
    /// Processes and threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub pids: Option<u32>,
    /// Standard output and standard error together, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub output_bytes: Option<u64>,
    /// How long a tool call may wait for its answer, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tool_ms: Option<u64>,
}

/// One function of the client's that the code may call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolSpec {
    /// Its name. In the code, characters that an identifier can't hold become `_`; two names must not become one.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
    /// What it does, for the model that writes the code.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// JSON Schema of its arguments; calls that break it never leave the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    /// How often the job may call it; no bound where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_calls: Option<u32>,
    /// Hand results to the code as strings, unparsed (the official form).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub raw: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_batch_is_a_job() {
        let job: Job = serde_json::from_str(r#"{"id": "HumanEval/0", "language": "python", "code": "1"}"#).unwrap();
        assert_eq!((job.protocol, job.max_attempts, job.pool.as_str()), (1, 1, "default"));
    }

    #[test]
    fn only_a_job_that_closes_its_session_needs_no_code() {
        for (text, lacks) in [
            (r#"{"id": "a"}"#, true),
            (r#"{"id": "a", "session": {"id": "s"}}"#, true),
            (r#"{"id": "a", "session": {"id": "s", "close": false}}"#, true),
            (r#"{"id": "a", "session": {"id": "s", "close": true}}"#, false),
            (r#"{"id": "a", "code": ""}"#, false),
            (r#"{"id": "a", "code": "1"}"#, false),
        ] {
            let job: Job = serde_json::from_str(text).unwrap();
            assert_eq!(lacks_code(&job, text.as_bytes()), lacks, "{text}");
        }
    }

    #[test]
    fn unknown_fields_are_refused_at_every_depth() {
        for bad in [
            r#"{"id": "a", "code": "", "codee": ""}"#,
            r#"{"id": "a", "code": "", "limits": {"wall": 1}}"#,
            r#"{"id": "a", "code": "", "session": {"id": "s", "x": 1}}"#,
            r#"{"id": "a", "code": "", "tools": [{"name": "t", "schema": {}}]}"#,
        ] {
            let err = serde_json::from_str::<Job>(bad).unwrap_err().to_string();
            assert!(err.contains("unknown field"), "{err}");
        }
    }
}
