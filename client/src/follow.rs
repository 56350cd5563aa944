//! Where what arrives for a job goes.

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::value::RawValue;
use thermae_schemas::{Event, ToolCall, ToolFailure};

use crate::Error;

/// Takes what arrives for one job. `text` is always the event as the fleet sent it, byte for byte.
///
/// The task that reads the reply queue calls [`Follower::event`] and [`Follower::end`], in the order in which events
/// arrive. They must return at once: until then, nothing else is read.
#[async_trait]
pub trait Follower: Send + Sync + 'static {
    /// An event that is neither a tool call nor the result. It may be unknown to this release.
    fn event(&self, event: Event, text: &Bytes);

    /// The code calls a tool. If this returns an `Err` or panics, the code gets a `ToolError`. The future is dropped
    /// when the code no longer waits for the answer, but *not* when the job ends. Several calls may be answered at the
    /// same time.
    async fn tool_call(&self, call: ToolCall, text: Bytes) -> Result<Box<RawValue>, ToolFailure>;

    /// The client has done with a call: the answer of [`Follower::tool_call`] was sent, or (`sent` is `false`) nobody
    /// wants it any more. Until then the client keeps the answer, for example because the run reads none.
    fn done_with(&self, call: &str, sent: bool) {
        let _ = (call, sent);
    }

    /// The job's first result, or why no result will come. Nothing follows.
    fn end(&self, end: Result<(Event, Bytes), Error>);
}
