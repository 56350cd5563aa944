//! The interface between the worker and whoever answers tool calls.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::value::RawValue;
use thermae_schemas::ErrorCode;

use super::{Kept, Open};
use crate::audit::Trail;
use crate::running::Entry;
use crate::work::Work;

/// Largest result of a call, in bytes of JSON. RabbitMQ 4 accepts no larger message.
pub(super) const LARGEST_ANSWER: usize = 16 << 20;

/// A provider of tools: it answers the tool calls of jobs. For example, the client that submitted the job is a provider
/// ([`super::Client`]).
///
/// A provider gets only calls that the worker has checked: the job declares the tool, the arguments match the tool's
/// schema, no bound is exceeded, and the worker still has its lease on the job. It gets calls of many jobs and tenants
/// at the same time.
///
/// # Deadline and cancellation
/// The worker drops the future of a call when [`Call::within`] is over, or when the run ends before that. So a provider
/// needs no timer. Whatever must end with the call belongs to the future, so that it is cleaned up when the future is
/// dropped. If a peer would otherwise go on with the call, the provider tells the peer [`Call::within`].
///
/// # Duties
/// - A tool may have effects. So a provider never repeats a call whose first try may have arrived.
/// - What a tool says is kept by a [`super::Keeper`] from the moment at which it comes, so that it counts.
/// - A result has at most [`LARGEST_ANSWER`] bytes, and the text of an error at most a megabyte. If an answer does not
///   fit in a frame to the runner, the container is lost.
/// - A provider does not block the thread, and does not panic: a panic ends the whole attempt.
#[async_trait]
pub(crate) trait Provider: Send + Sync {
    /// Answers one call.
    async fn call(&self, call: Call<'_>) -> Answer;
}

/// A call that the worker has checked.
pub(crate) struct Call<'a> {
    /// The job whose code makes the call.
    pub work: &'a Work,
    /// The run that makes it. It says which client has the run at the moment.
    pub entry: &'a Entry,
    /// Name of the tool, as the job declares it.
    pub tool: &'a str,
    /// The arguments: a JSON object.
    pub arguments: Box<RawValue>,
    /// How long the answer may take, from now.
    pub within: Duration,
    /// The gate's record of this call, which counts the arguments as held in memory. If the provider frees the
    /// arguments and every copy of them before it has the answer, it calls [`Open::left`]. The gate then lets more
    /// calls of the job through.
    pub open: &'a mut Open,
    /// Where the audit log is told what else happens to the call.
    pub trail: &'a Trail<'a>,
}

/// What the tool says, or why it says nothing.
pub(crate) type Answer = Result<Kept, Refused>;

/// Why a call was not made, or not answered. The code sees the error's code and message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", code.as_str())]
pub(crate) struct Refused {
    /// Code of the error. `metrics.rs` lists the codes that occur here.
    pub code: ErrorCode,
    /// Message for the code that made the call.
    pub message: String,
}

impl Refused {
    pub(super) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}
