//! A job: one request to run one program.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::optional::{integer_or, nullable, nullable_in_a_job, or_default, some_integer};
use crate::{
    ArtifactRequest, Capabilities, InputFile, InputValue, JobId, Language, LimitRequest, PoolName, SessionName, Stream,
    TokenText, ToolSpec,
};

/// One request to run one program. Unknown fields are refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Job", deny_unknown_fields, expecting = "a job, which is an object")]
#[schemars(extend("anyOf" = [
    {"required": ["code"], "properties": {"code": {"type": "string"}}},
    {"required": ["argv"], "properties": {"argv": {"type": "array", "minItems": 1}}},
    {"required": ["session"], "properties": {
        "session": {"type": "object", "required": ["close"], "properties": {"close": {"const": true}}},
    }},
]))]
#[schemars(transform = nullable_in_a_job)]
pub struct Job {
    /// Version of the protocol; 1 if the field is missing. A job that uses fields of a later version must say so.
    #[serde(default = "crate::first_protocol", deserialize_with = "integer_or::<1, _, _>")]
    pub protocol: u32,
    /// Id of the job, unique in its tenant. If you submit the same job again under its id, it does not run twice: you
    /// get its recorded outcome.
    pub id: JobId,
    /// Language of the code: the name of a language that the pool runs, such as `python` or `bash`.
    #[serde(default, deserialize_with = "or_default")]
    pub language: Language,
    /// The program. Only a job with `argv`, or one that closes its session, can omit it.
    #[serde(default, deserialize_with = "or_default")]
    pub code: String,
    /// A command and its arguments, in place of `code`. Only `bash` runs commands.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
    /// Pool that the job runs in; `default` if the field is missing.
    #[serde(default, deserialize_with = "or_default")]
    pub pool: PoolName,
    /// How urgent the job is among its tenant's own jobs.
    #[serde(default, deserialize_with = "or_default")]
    pub class: Class,
    /// Session that the job runs in. Without one, the job runs in a fresh sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionRequest>,
    /// Limits of the job, at most the pool's own.
    #[serde(default, deserialize_with = "or_default")]
    pub limits: LimitRequest,
    /// Functions of the client that the code can call.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    /// Whether calling a tool gives its result, as any function does: the code then does not await it. Without this, a
    /// call gives something to await. Only Python has both.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub sync_tools: bool,
    /// What the code can do with the tools: calls that no capability allows raise an error in the
    /// code and are not sent. An empty list allows nothing. Without the field, the code can make any call that the
    /// tools themselves allow.
    #[serde(default, deserialize_with = "crate::capabilities::given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Capabilities")]
    pub capabilities: Option<Capabilities>,
    /// A capability token. Each call then needs the leave of the token and of the job's own
    /// `capabilities`, if there are some. Its counts are shared by all jobs that use it. A job whose token gives no
    /// rights is `rejected`.
    #[serde(default, deserialize_with = "crate::token::given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TokenText")]
    pub token: Option<TokenText>,
    /// Kinds of events that are sent while the job runs. The result is always sent.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub stream: Vec<Stream>,
    /// What happens to a tool call that reaches no client.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "IfClientGone::is_default")]
    pub if_client_gone: IfClientGone,
    /// How many times the code can be started. Set it above 1 only if the code can safely run twice.
    #[serde(default = "one", deserialize_with = "integer_or::<1, _, _>")]
    #[schemars(range(min = 1, max = 100))]
    pub max_attempts: u32,
    /// Time within which the code must start, in milliseconds after the job was submitted. After that, the job is
    /// `rejected` (`deadline_exceeded`).
    #[serde(default, deserialize_with = "some_integer", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400_000))]
    pub start_within_ms: Option<u64>,
    /// Standard input of the code. Without it, standard input is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// JSON values that the code finds under these names. A name is an identifier of at most 128
    /// letters (a-z), digits and underscores. It is not a keyword of Python, does not begin with two underscores, and is
    /// not the name of a tool in the code. In a session, the names stay defined. Only Python has inputs.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, InputValue>,
    /// Files that are written below `/workspace` before the code starts. In a session, they overwrite what is there.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<InputFile>,
    /// How the client wants the files that the code leaves in `/workspace/artifacts`.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "ArtifactRequest::is_default")]
    pub artifacts: ArtifactRequest,
    /// Environment variables of the code, values by name. In a session, they stay set for its later jobs.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Jobs of a tenant with the same key are one job: only the first runs, and the others get its outcome. A different
    /// job with the same key is refused (`idempotency_conflict`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub idempotency_key: Option<String>,
    /// The client's own labels, values by name. The fleet does not read them.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

fn one() -> u32 {
    1
}

/// Whether a job lacks the code or command that it must have. `text` is the JSON that the job was read from: in a [`Job`], missing
/// code looks like empty code, which is allowed.
pub fn lacks_code(job: &Job, text: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Named {
        code: Option<serde::de::IgnoredAny>,
    }
    job.code.is_empty()
        && job.argv.is_empty()
        && !job.session.as_ref().is_some_and(|session| session.close)
        && serde_json::from_slice::<Named>(text).is_ok_and(|named| named.code.is_none())
}

impl Job {
    /// A Python job with a new id. All other fields have their defaults.
    pub fn python(code: impl Into<String>) -> Self {
        Self {
            protocol: crate::OLDEST,
            id: JobId::random(),
            language: Language::python(),
            code: code.into(),
            argv: Vec::new(),
            pool: PoolName::default(),
            class: Class::default(),
            session: None,
            limits: LimitRequest::default(),
            tools: Vec::new(),
            sync_tools: false,
            capabilities: None,
            token: None,
            stream: Vec::new(),
            if_client_gone: IfClientGone::Fail,
            max_attempts: 1,
            start_within_ms: None,
            stdin: None,
            inputs: BTreeMap::new(),
            files: Vec::new(),
            artifacts: ArtifactRequest::default(),
            env: BTreeMap::new(),
            idempotency_key: None,
            labels: BTreeMap::new(),
        }
    }

    /// A job in bash with a new id. All other fields have their defaults.
    pub fn bash(code: impl Into<String>) -> Self {
        Self { language: Language::bash(), ..Self::python(code) }
    }
}

/// How urgent a job is among its tenant's own jobs. It has no effect on the jobs of other tenants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// For jobs that somebody waits for.
    High,
    /// The default.
    #[default]
    Normal,
    /// For jobs that nobody waits for.
    Low,
}

impl Class {
    /// All classes, the most urgent first.
    pub const ALL: [Class; 3] = [Class::High, Class::Normal, Class::Low];

    /// The class's name on the wire and in queue names.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Normal => "normal",
            Self::Low => "low",
        }
    }
}

/// The session that a job runs in. The first job of a session makes the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "SessionRequest", deny_unknown_fields, expecting = "an object with `id`")]
#[schemars(transform = nullable)]
pub struct SessionRequest {
    /// Name of the session, unique in the tenant.
    pub id: SessionName,
    /// What to do if the session existed and is gone (lost with its worker or its sandbox, or expired).
    #[serde(default, deserialize_with = "or_default")]
    pub if_gone: IfGone,
    /// Whether to begin a new session under this name when the job starts. A session that exists is then given up, with
    /// all that it holds.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub reset: bool,
    /// Whether to close the session when this job has ended, however it ended. After that, the name is free.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub close: bool,
    /// How long the session can be idle before it is closed, in milliseconds, from this job on. At most the pool's
    /// `session_idle`, which is also the default.
    #[serde(default, deserialize_with = "some_integer", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub idle_ms: Option<u64>,
    /// When a checkpoint of the session's files is stored: after each job from this one on, or after this one alone. By
    /// default, only when its worker drains. The next session of this name begins with its files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointWhen>,
    /// How long each checkpoint is kept, in milliseconds, from this job on. At most the fleet's
    /// `artifacts.checkpoint_ttl_max`. The default is its `artifacts.checkpoint_ttl`.
    #[serde(default, deserialize_with = "some_integer", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub checkpoint_ttl_ms: Option<u64>,
    /// Name of a session of the same tenant. If this job makes its session, and there is no checkpoint of that session,
    /// the new session begins with the files of this checkpoint. If there is none, the job is rejected
    /// (`checkpoint_missing`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore: Option<SessionName>,
}

impl SessionRequest {
    /// A request for the session with this name. If the session is gone, the job is rejected.
    pub fn new(id: SessionName) -> Self {
        Self {
            id,
            if_gone: IfGone::Fail,
            reset: false,
            close: false,
            idle_ms: None,
            checkpoint: None,
            checkpoint_ttl_ms: None,
            restore: None,
        }
    }

    /// What to do if the session is gone. A job that resets its session always gets a new one.
    pub fn if_gone(&self) -> IfGone {
        if self.reset { IfGone::New } else { self.if_gone }
    }
}

/// When a checkpoint of a session's files is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointWhen {
    /// After each job, before its outcome is recorded. `session.checkpointed` in the outcome says that it is stored.
    AfterJob,
    /// After this job alone, in the same way.
    Once,
}

/// What to do if a session existed and is gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IfGone {
    /// Reject the job with `session_lost`, `session_expired` or `session_evicted`. A job never silently gets a new
    /// session.
    #[default]
    Fail,
    /// Make a new session under the same name. `session.fresh` in the outcome says so.
    New,
}

/// What happens to a tool call that reaches no client, because no queue is bound to the job's reply key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IfClientGone {
    /// The call fails (`client_gone`).
    #[default]
    Fail,
    /// The call waits until a client takes the run over and answers, or until its time is over.
    Wait,
}

impl IfClientGone {
    /// Whether it is the default.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
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
            (r#"{"id": "a", "argv": ["ls"]}"#, false),
            (r#"{"id": "a", "argv": []}"#, true),
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
