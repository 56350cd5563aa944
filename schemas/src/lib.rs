//! The wire contract: the messages that clients, schedulers and workers exchange, and the names of exchanges, queues,
//! routing keys and headers. All other crates build on it. It does no I/O.
//!
//! A job with an unknown field is refused, so that a typing error is noticed. Unknown fields of events are ignored, so
//! that an older client works with a newer fleet. Every message carries the version of the protocol ([`PROTOCOL`]), and
//! a fleet of version N also reads N-1.
//!
//! `schemas/json` and `schemas/asyncapi.json` are generated from these types. `cargo test -p thermae-schemas` checks
//! that they are current.

#![forbid(unsafe_code)]

mod alias;
mod batch;
mod body;
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
pub use body::Body;
pub use control::Cancel;
pub use error::{ErrorCode, ErrorInfo};
pub use event::{Event, EventBody, Stream};
pub use file::{Artifact, ArtifactRequest, InputFile, LeftOut, LeftOutWhy, check_path};
pub use id::{ClientId, JobId, Language, NameError, PoolName, SessionName, TenantName, WorkerId};
pub use job::{Class, IfGone, Job, LimitRequest, SessionRequest, ToolSpec, lacks_code};
pub use outcome::{LimitsUsed, MimeBundle, Outcome, SessionState, Status, Usage};
pub use query::{Asked, Query, SessionInfo};
pub use tool::{ToolCall, ToolReply, ToolResult};
pub use worker::{Heartbeat, PoolCapacity, RunningJob, SessionHeld, WorkerState};

/// Version of the protocol, which every message carries. A fleet of version N also reads N-1, and refuses all others.
pub const PROTOCOL: u32 = 1;

/// Whether this release reads messages of this version.
pub fn reads(protocol: u32) -> bool {
    protocol == PROTOCOL || (PROTOCOL > 1 && protocol == PROTOCOL - 1)
}

/// Version of a message that names none: the first.
pub(crate) fn first_protocol() -> u32 {
    1
}

/// Version of the messages that this release writes.
pub(crate) fn this_protocol() -> u32 {
    PROTOCOL
}
