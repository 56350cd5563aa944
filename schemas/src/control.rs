//! The message with which a client cancels a job.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::JobId;
use crate::optional::{integer_or, nullable};

/// Cancels a job. If the job has not started, it never runs. If it is running, its sandbox is killed. The outcome is
/// `cancelled`, unless the job ended first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Cancel", deny_unknown_fields)]
#[schemars(transform = nullable)]
pub struct Cancel {
    /// Version of the protocol; 1 if the field is missing.
    #[serde(default = "crate::first_protocol", deserialize_with = "integer_or::<1, _, _>")]
    pub protocol: u32,
    /// Id of the job to cancel.
    pub job: JobId,
}

impl Cancel {
    /// A message that cancels this job.
    pub fn new(job: JobId) -> Self {
        Self { protocol: crate::OLDEST, job }
    }
}
