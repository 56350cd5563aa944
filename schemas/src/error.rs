//! The errors that outcomes report. Each has a stable code for programs, and a message for people and models.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal, $retry:literal;)+) => {
        /// Stable code of an error. New codes may be added. Existing codes never change their meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum ErrorCode {
            $($(#[doc = $doc])+ $name,)+
            /// A code that the reader does not know, because a newer release wrote it.
            #[serde(other)]
            Unknown,
        }

        impl ErrorCode {
            /// Every code except `Unknown`, with its name on the wire, its meaning, and whether it is safe to retry.
            pub const ALL: &'static [(ErrorCode, &'static str, &'static str, bool)] =
                &[$((ErrorCode::$name, $text, concat!($($doc, " "),+), $retry)),+];

            /// The code's name on the wire, for example `wall_timeout`.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(ErrorCode::$name => $text,)+
                    ErrorCode::Unknown => "unknown",
                }
            }

            /// Whether it is safe to submit the job again under a new id, and whether that can help. This is true only
            /// if nothing of the job ran and the cause can pass.
            pub fn safe_to_retry(self) -> bool {
                match self {
                    $(ErrorCode::$name => $retry,)+
                    ErrorCode::Unknown => false,
                }
            }
        }
    };
}

codes! {
    /// The message is not JSON.
    MalformedJson = "malformed_json", false;
    /// The job has a field that this version does not know.
    UnknownField = "unknown_field", false;
    /// A field has a value that the schema does not allow.
    SchemaViolation = "schema_violation", false;
    /// The fleet does not support the message's protocol version.
    UnsupportedProtocol = "unsupported_protocol", false;
    /// The job is larger than the fleet accepts.
    JobTooLarge = "job_too_large", false;
    /// A file's path is invalid (for example, absolute or outside `/workspace`), or two files have the same path.
    BadPath = "bad_path", false;
    /// Together, the job's files are larger than a sandbox's storage.
    FilesTooLarge = "files_too_large", false;
    /// A `ref` of a job names no artifact in the tenant's part of the fleet's store.
    UnknownRef = "unknown_ref", false;
    /// The fleet's store could not be read.
    StoreUnavailable = "store_unavailable", true;
    /// A file could not be written to its path: something else is in the way, or the storage is full.
    FileNotPlaced = "file_not_placed", false;
    /// No pool of that name is configured.
    UnknownPool = "unknown_pool", false;
    /// The pool does not run that language, or the session runs another.
    UnsupportedLanguage = "unsupported_language", false;
    /// The job asks for a higher limit than the pool allows.
    LimitTooHigh = "limit_too_high", false;
    /// The message names no sender: its AMQP property `user_id` is missing.
    UserIdMissing = "user_id_missing", false;
    /// The reply key does not belong to the tenant that submitted the job.
    ForbiddenReplyKey = "forbidden_reply_key", false;
    /// The tenant is not configured, and unknown tenants are not admitted (`admit_unknown_tenants`).
    UnknownTenant = "unknown_tenant", false;
    /// Too many jobs of the tenant wait for another job's outcome, or too many bytes of jobs wait for a session.
    QuotaExceeded = "quota_exceeded", true;
    /// The idempotency key was used before, for a different job.
    IdempotencyConflict = "idempotency_conflict", false;
    /// The id was used before, for a different job.
    IdConflict = "id_conflict", false;
    /// The job's capabilities are malformed. The message says where.
    BadCapability = "bad_capability", false;
    /// The worker has no public keys, so it takes no tokens.
    TokenUnsupported = "token_unsupported", false;
    /// The worker can't read its public keys or its list of revoked tokens, so no token gives rights.
    TokenUnverifiable = "token_unverifiable", true;
    /// The job's token is too long.
    TokenTooLarge = "token_too_large", false;
    /// The job's token was narrowed too often.
    TokenTooManyBlocks = "token_too_many_blocks", false;
    /// The job's token is no capability token, or says what a token can't say.
    TokenMalformed = "token_malformed", false;
    /// The worker has no public key with the id that the job's token names.
    TokenUnknownKey = "token_unknown_key", false;
    /// A signature of the job's token is wrong.
    TokenBadSignature = "token_bad_signature", false;
    /// The job's token, or one that it was narrowed from, is revoked.
    TokenRevoked = "token_revoked", false;
    /// The job's token belongs to another tenant.
    TokenForeignTenant = "token_foreign_tenant", false;
    /// The job's token is not valid yet.
    TokenNotYetValid = "token_not_yet_valid", true;
    /// The job's token has expired.
    TokenExpired = "token_expired", false;
    /// A call of the token could not be counted, and was not made: Redis was away, or there were too many counts.
    TokenCountsUnavailable = "token_counts_unavailable", false;
    /// How often the token was used is not known: Redis began anew after it was made. The call was not made.
    TokenCountsLost = "token_counts_lost", false;
    /// The message is older than the fleet accepts. The job was not started from it.
    SubmissionExpired = "submission_expired", false;
    /// The job has ended, but its outcome is not kept any more: it is too old, or there was no room for it.
    OutcomeExpired = "outcome_expired", false;
    /// Redis, which holds the jobs' records, is full.
    RegistryFull = "registry_full", true;
    /// The deadline passed before the code started.
    DeadlineExceeded = "deadline_exceeded", true;
    /// The session was lost with its worker or sandbox. Its variables are gone.
    SessionLost = "session_lost", true;
    /// The session was idle for longer than its timeout and was closed.
    SessionExpired = "session_expired", true;
    /// The session was ended to make room for another one of its tenant.
    SessionEvicted = "session_evicted", true;
    /// The pool or the tenant has as many sessions as allowed, and none of the tenant's can make room.
    SessionLimit = "session_limit", true;
    /// There is no checkpoint of the session that `restore` names, or it has expired.
    CheckpointMissing = "checkpoint_missing", false;
    /// The fleet's store ends with its worker, so that a checkpoint would not outlive the session.
    CheckpointUnsupported = "checkpoint_unsupported", false;
    /// The session has too many files or bytes for a checkpoint, or a checkpoint has too many for the pool.
    CheckpointTooLarge = "checkpoint_too_large", false;
    /// The checkpoint could not be stored.
    CheckpointFailed = "checkpoint_failed", false;
    /// A part of a request's input or output was lost with a connection. What the request did until then stands.
    RequestInterrupted = "request_interrupted", false;
    /// No worker serves the pool.
    NoWorker = "no_worker", true;
    /// The container engine (Docker) does not answer, or can't make the pool's containers.
    BackendUnavailable = "backend_unavailable", true;
    /// The sandbox could not be made.
    SandboxFailed = "sandbox_failed", true;
    /// The code raised an exception.
    CodeRaised = "code_raised", false;
    /// The code exited with a status other than zero.
    CodeExited = "code_exited", false;
    /// A signal ended the code.
    CodeKilled = "code_killed", false;
    /// The wall-clock limit was reached.
    WallTimeout = "wall_timeout", false;
    /// The CPU-time limit was reached.
    CpuTimeout = "cpu_timeout", false;
    /// The memory limit was reached.
    OutOfMemory = "out_of_memory", false;
    /// The code wrote more output than allowed.
    OutputLimit = "output_limit", false;
    /// The client cancelled the job.
    Cancelled = "cancelled", false;
    /// The worker that ran the code died or could not be reached. The code may have run, in whole or in part.
    WorkerLost = "worker_lost", false;
    /// The sandbox or its container died during the run. The code may have run in part.
    SandboxLost = "sandbox_lost", false;
    /// The worker stopped before the code ended.
    WorkerStopped = "worker_stopped", false;
    /// The fleet's records were lost while the job was under way. The code may have run.
    RecordLost = "record_lost", false;
    /// The job was handed out too many times without ending. The code may have run.
    DeliveryLimit = "delivery_limit", false;
    /// The job declares no tool with this name.
    UnknownTool = "unknown_tool", false;
    /// The job's capabilities do not allow the tool call. The message says why.
    CapabilityRefused = "capability_refused", false;
    /// Somebody decided that the tool call is not made.
    ApprovalDenied = "approval_denied", false;
    /// Nobody approved the tool call in time, so it was not made.
    ApprovalTimedOut = "approval_timed_out", false;
    /// Another decision about the tool call came before.
    ApprovalDecided = "approval_decided", false;
    /// The tool call does not wait for approval (any more).
    ApprovalOver = "approval_over", false;
    /// The tool was called more often than allowed.
    ToolCallLimit = "tool_call_limit", false;
    /// The arguments of a tool call do not match the tool's input schema, or can't be sent.
    ToolArguments = "tool_arguments", false;
    /// The client did not answer the tool call in time.
    ToolTimeout = "tool_timeout", false;
    /// The client's answer to the tool call can't be read, is too large, or is not what the job's capabilities allow.
    ToolAnswer = "tool_answer", false;
    /// The tool's answer was dropped, because too many bytes of answers wait for runs to read them.
    ToolAnswerLimit = "tool_answer_limit", false;
    /// The tool call could not be written to the worker's audit log, so it was not made.
    AuditFailed = "audit_failed", false;
    /// No queue is bound to the reply key any more.
    ClientGone = "client_gone", false;
    /// Another client has taken the run over, and gets its calls, output and result. The run goes on.
    Superseded = "superseded", false;
    /// The fleet itself failed. Its log says more.
    Internal = "internal", false;
}

/// What went wrong. `code` and `safe_to_retry` are for programs. The other fields are for people and models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorInfo {
    /// Stable code of the error.
    pub code: ErrorCode,
    /// One or two sentences: what happened, and what to do.
    pub message: String,
    /// Type of the exception that the code raised, for example `ValueError`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exception: Option<String>,
    /// Traceback of that exception, with the job's own lines of code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceback: Option<String>,
    /// Whether it is safe to submit the job again under a new id, and whether that can help. True only if nothing of
    /// the job ran and the cause can pass.
    #[serde(default)]
    pub safe_to_retry: bool,
}

impl ErrorInfo {
    /// An error with this code. The code decides whether it is safe to retry.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), exception: None, traceback: None, safe_to_retry: code.safe_to_retry() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_on_the_wire_as_it_says() {
        for (code, text, _, _) in ErrorCode::ALL {
            assert_eq!(serde_json::to_string(code).unwrap(), format!("{text:?}"));
        }
        assert_eq!(serde_json::from_str::<ErrorCode>("\"from_the_future\"").unwrap(), ErrorCode::Unknown);
    }
}
