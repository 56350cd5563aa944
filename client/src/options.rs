//! The options of a client.

use std::sync::Arc;
use std::time::Duration;

use thermae_schemas::ClientId;

use crate::Store;

/// The options of a client. The defaults fit nearly all programs.
#[derive(Debug, Clone)]
pub struct Options {
    /// Name of this client, which is also the name of its reply queue. Two clients of the same name would take each
    /// other's results.
    pub client: ClientId,
    /// Number of events that the broker delivers before the client has acknowledged them.
    pub prefetch: u16,
    /// Number of streamed events of one job that may wait for a reader. When the buffer is full, the newest events are
    /// dropped. The result is never dropped, and it contains all output.
    pub event_buffer: usize,
    /// Number of tool calls that are answered at the same time, over all jobs. Further calls are answered with an
    /// error.
    pub max_calls: usize,
    /// Pause before a failed publish is repeated for the first time. It doubles with each repetition, up to
    /// [`Options::retry_max`].
    pub retry_min: Duration,
    /// Longest pause between two repetitions.
    pub retry_max: Duration,
    /// How long the fleet may take to answer a request to a session before the request is sent again. The pause doubles
    /// with each repetition, up to [`Options::silence`].
    pub first_answer: Duration,
    /// How long the fleet may take to answer a question before the question is asked again. The pause doubles with each
    /// repetition.
    pub ask_again: Duration,
    /// How long the client goes on to ask for a run that the fleet doesn't know. A job that was just submitted may
    /// still be on its way through its queue.
    pub unknown_for: Duration,
    /// How long a request to a session may be silent after its first answer before it is sent again.
    pub silence: Duration,
    /// How long RabbitMQ must refuse a message before the tenant's queue counts as full.
    pub full_after: Duration,
    /// Where large files and inputs of jobs go. Without it, they stay in the jobs' messages, which are limited in size.
    pub store: Option<Arc<dyn Store>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            client: ClientId::random(),
            prefetch: 256,
            event_buffer: 256,
            max_calls: 16 * 1024,
            retry_min: Duration::from_millis(50),
            retry_max: Duration::from_secs(2),
            first_answer: Duration::from_secs(5),
            ask_again: Duration::from_secs(1),
            unknown_for: Duration::from_secs(2),
            silence: Duration::from_secs(30),
            full_after: Duration::from_secs(5),
            store: None,
        }
    }
}
