//! How a client behaves.

use std::time::Duration;

use thermae_schemas::ClientId;

/// How a client behaves; the defaults fit nearly everyone.
#[derive(Debug, Clone)]
pub struct Options {
    /// Name of this client, which names its reply queue. Two clients of one name would steal each other's results.
    pub client: ClientId,
    /// Events taken from the broker before their acknowledgement.
    pub prefetch: u16,
    /// Streamed events that wait for a reader, per job. When it is full the newest are dropped; the result holds all output
    /// anyway and is never dropped.
    pub event_buffer: usize,
    /// Tool calls answered at once, over all jobs; beyond it calls are answered with an error.
    pub max_calls: usize,
    /// Pause before the first repetition of a publish that failed; doubles up to [`Options::retry_max`].
    pub retry_min: Duration,
    /// Longest pause between repetitions.
    pub retry_max: Duration,
    /// For how long RabbitMQ refuses a message before the tenant's queue counts as full.
    pub full_after: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            client: ClientId::random(),
            prefetch: 256,
            event_buffer: 256,
            max_calls: 1024,
            retry_min: Duration::from_millis(50),
            retry_max: Duration::from_secs(2),
            full_after: Duration::from_secs(5),
        }
    }
}
