//! The wire contract: what travels between clients, schedulers and workers, and under which names.
//!
//! Jobs refuse unknown fields, so that a typing error is an answer and not a silence; events tolerate them, so that an
//! older client can follow a newer fleet. [`PROTOCOL`] is in every message; a reader of version N reads N-1 too.
//! `cargo test -p thermae-schemas` keeps the generated files in `schemas/json` and `schemas/asyncapi.json` in step.

#![forbid(unsafe_code)]

mod alias;
mod batch;
mod control;
mod error;
mod event;
mod file;
pub mod generate;
#[cfg(test)]
mod hostile;
mod id;
mod job;
pub mod json;
pub mod names;
mod outcome;
mod query;
mod tool;
mod worker;

pub use alias::{ALIAS_CASES, AliasClash, alias, alias_clash};
pub use batch::{Batch, BatchLine};
pub use control::Cancel;
pub use error::{ErrorCode, ErrorInfo};
pub use event::{Event, EventBody, Stream};
pub use file::{Artifact, ArtifactRequest, InputFile, LeftOut, LeftOutWhy, check_path};
pub use id::{ClientId, JobId, NameError, PoolName, SessionName, TenantName, WorkerId};
pub use job::{Class, IfGone, Job, Language, LimitRequest, SessionRequest, ToolSpec, lacks_code};
pub use outcome::{LimitsUsed, MimeBundle, Outcome, SessionState, Status, Usage};
pub use query::{Asked, Query, SessionInfo};
pub use tool::{ToolCall, ToolReply, ToolResult};
pub use worker::{Heartbeat, PoolCapacity, RunningJob, SessionHeld, WorkerState};

/// Version of the wire. Messages carry it; a fleet of version N reads N-1 and refuses all others.
pub const PROTOCOL: u32 = 1;

/// Whether a message of this version is read here.
pub fn reads(protocol: u32) -> bool {
    protocol == PROTOCOL || (PROTOCOL > 1 && protocol == PROTOCOL - 1)
}

/// Version that a message has when it names none: the first.
pub(crate) fn first_protocol() -> u32 {
    1
}

/// Version of the messages written here.
pub(crate) fn this_protocol() -> u32 {
    PROTOCOL
}
