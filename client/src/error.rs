//! Errors between a client and the fleet. What goes wrong *in* a job is not an error: it is reported in the job's
//! outcome.

use std::sync::Arc;
use std::time::Duration;

use thermae_backplane::bus;
use thermae_schemas::JobId;
use thermae_service::units::seconds;

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
    /// The fleet's store can't keep a large file or input of the job. The job was not submitted.
    #[error("the fleet's store can't keep a file of the job: {0}")]
    Store(String),
    /// The broker refused permanently: wrong credentials, missing permissions, or a closed connection.
    #[error("the broker refused the request")]
    Bus(#[source] Arc<bus::Error>),
    /// The client was dropped or closed before the job's result came.
    #[error("the client was closed before the result came")]
    Closed,
    /// The fleet has no record of such a run of this tenant: it was not submitted, still waits in its queue, or was
    /// forgotten.
    #[error("the fleet knows no run {0} of this tenant")]
    UnknownRun(JobId),
    /// Another client has taken the run over, or this client has done so again. The run goes on, and its later events
    /// go there.
    #[error("run {0} was taken over by another client")]
    Superseded(JobId),
    /// No worker of this tenant waits for answers under the call's reply key.
    #[error("no worker waits for the answer to call {0:?}")]
    UnknownCall(String),
    /// A question was not answered in time.
    #[error("no scheduler answered within {}", seconds(*.0))]
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
