//! The wire contract: the messages that clients, schedulers and workers exchange, and the names of exchanges, queues,
//! routing keys and headers. All other crates build on it. It does no I/O.
//!
//! A job with an unknown field is refused, so that a typing error is noticed. Unknown fields of events are ignored, so
//! that an older client works with a newer fleet. Every message carries a version of the protocol: the lowest one that
//! has all that the message says. This release reads all versions from [`OLDEST`] to [`PROTOCOL`], which is one version
//! today. A fleet of version N reads at least N-1, too.
//!
//! `schemas/json` and `schemas/asyncapi.json` are generated from these types. `cargo test -p thermae-schemas` checks
//! that they are current.

#![forbid(unsafe_code)]

mod alias;
mod approval;
mod audit;
mod batch;
mod body;
mod bytes;
mod capabilities;
mod control;
mod env;
mod error;
mod event;
mod file;
mod file_op;
pub mod generate;
#[cfg(test)]
mod hostile;
mod id;
mod input;
mod job;
pub mod json;
mod limits;
pub mod names;
mod object;
pub mod optional;
mod outcome;
mod query;
mod request;
mod run;
mod scope;
mod token;
mod tool;
mod worker;

pub use alias::{ALIAS_CASES, AliasClash, alias, alias_clash, hides};
pub use approval::{Approval, Choice, Decided, Decision, PendingApproval, Verdict};
pub use audit::{AuditLine, AuditWhat};
pub use batch::{Batch, BatchLine};
pub use body::Body;
pub use bytes::{Content, PathText};
pub use capabilities::{Capabilities, MalformedCapabilities};
pub use control::Cancel;
pub use env::env_trouble;
pub use error::{ErrorCode, ErrorInfo};
pub use event::{Event, EventBody, OutputStream, Stream};
pub use file::{Artifact, ArtifactRequest, InputFile, LeftOut, LeftOutWhy, check_path};
pub use file_op::{
    Digested, Entry, FileKind, FileOp, FileStat, Found, Listing, Match, Matches, Resolved, Transferred, WriteMode,
};
pub use id::{ArtifactId, ClientId, JobId, Language, NameError, PoolName, SessionName, TenantName, WorkerId};
pub use input::{InputValue, JsonText, NameTrouble, name_trouble};
pub use job::{CheckpointWhen, Class, IfClientGone, IfGone, Job, SessionRequest, lacks_code};
pub use limits::LimitRequest;
pub use object::{Object, object, read_object};
pub use outcome::{LimitsUsed, MimeBundle, Outcome, SessionState, Status, Usage};
pub use query::{Asked, Query, SessionInfo};
pub use request::{Exec, Request, RequestDone, RequestEnd, RequestInput, RequestWork, Say};
pub use run::{OutputPart, PendingCall, RunInfo, RunQuery, RunState};
pub use scope::{Scope, Scopes, UnknownScope};
pub use token::TokenText;
pub use tool::{ParameterKind, ToolCall, ToolFailure, ToolParameter, ToolReply, ToolResult, ToolSpec};
pub use worker::{Heartbeat, PoolCapacity, RunningJob, SessionHeld, WorkerState};

// What clients send.
objects!(
    ArtifactRequest,
    Batch,
    Cancel,
    Decision,
    Exec,
    FileOp,
    InputFile,
    Job,
    LimitRequest,
    Query,
    RequestWork,
    RunQuery,
    Say,
    SessionRequest,
    ToolParameter,
    ToolSpec,
    Verdict,
);

/// Newest version of the protocol that this release speaks.
pub const PROTOCOL: u32 = 1;

/// Oldest version of the protocol that this release speaks. Messages that need nothing newer are written in it, so that
/// an older peer reads them.
pub const OLDEST: u32 = 1;

/// Whether this release reads messages of this version. All other versions are refused.
pub fn reads(protocol: u32) -> bool {
    (OLDEST..=PROTOCOL).contains(&protocol)
}

/// Version of a message that names none: the first.
pub(crate) fn first_protocol() -> u32 {
    1
}
