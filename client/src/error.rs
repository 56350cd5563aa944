//! Errors between a client and the fleet. What goes wrong *in* a job is not an error: it is reported in the job's
//! outcome.

use std::sync::Arc;
use std::time::Duration;

use thermae_backplane::bus;
use thermae_schemas::JobId;

/// Why a call of the client failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The exchange for jobs is missing or leads to no queue: no scheduler has ever run on this broker.
    #[error("no scheduler serves this fleet (the exchange `submit` leads to no queue)")]
    NoScheduler,
    /// The tenant's queue has as many bytes of waiting jobs as the broker allows. Nothing was submitted.
    #[error("the queue of your tenant is full; try later")]
    QueueFull,
    /// This client already follows a job with this id.
    #[error("job {0} is already under way on this client")]
    AlreadySubmitted(JobId),
    /// This client already has a request with this id under way.
    #[error("request {0} is already under way on this client")]
    AlreadyRequested(JobId),
    /// The job can't be written as JSON.
    #[error("the job can't be written as JSON")]
    Encode(#[source] Arc<serde_json::Error>),
    /// The broker refused permanently: wrong credentials, missing permissions, or a closed connection.
    #[error("the broker refused the request")]
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
