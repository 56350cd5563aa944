//! A batch: many jobs that are submitted and followed together, and the lines of its results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Job, Outcome};

/// Many jobs that are submitted and followed together. Their ids are unique in the batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Batch", deny_unknown_fields)]
pub struct Batch {
    /// The jobs, in order. A file of jobs has one job on each line (JSON Lines).
    pub jobs: Vec<Job>,
}

/// The id of a job and its outcome: one line of a batch's results.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BatchLine {
    /// Id of the job, as in the file of jobs.
    pub id: String,
    /// Outcome of the job. Its fields are part of this object.
    #[serde(flatten)]
    pub outcome: Outcome,
}
