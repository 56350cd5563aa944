//! What can go wrong between an orchestrator and the fleet. What goes wrong *in* a job is its outcome, not an error.

use std::sync::Arc;
use std::time::Duration;

use thermae_backplane::bus;
use thermae_schemas::JobId;

/// Why a client's call failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The exchange for jobs is missing or leads nowhere: no scheduler has ever run on this broker.
    #[error("no scheduler serves this fleet (exchange submit leads nowhere)")]
    NoScheduler,
    /// The tenant has as many bytes of jobs waiting as the broker lets one queue hold. Nothing was submitted.
    #[error("the queue of your tenant is full; try later")]
    QueueFull,
    /// This client already follows a job of that id.
    #[error("job {0} is already under way on this client")]
    AlreadySubmitted(JobId),
    /// The job can't be written as JSON.
    #[error("the job can't be written as JSON")]
    Encode(#[source] Arc<serde_json::Error>),
    /// The broker refused for good: wrong credentials, missing permissions, a closed connection.
    #[error("the broker did not take it")]
    Bus(#[source] Arc<bus::Error>),
    /// The client was dropped or closed before the job's result came.
    #[error("the client was closed before the result came")]
    Closed,
    /// A question was not answered in time.
    #[error("no scheduler answered within {} s", .0.as_secs_f64())]
    NoAnswer(Duration),
}

impl From<bus::Error> for Error {
    fn from(error: bus::Error) -> Self {
        match error {
            bus::Error::Closed => Self::Closed,
            error => Self::Bus(Arc::new(error)),
        }
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::Encode(Arc::new(error))
    }
}
