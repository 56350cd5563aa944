//! A batch: many jobs submitted and followed as one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Job, Outcome};

/// Many jobs that are submitted and followed as one. Their ids are unique in the batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// The jobs, in order. A file of them holds one a line (JSON Lines).
    pub jobs: Vec<Job>,
}

/// One line of a batch's results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BatchLine {
    /// Id of the job's line.
    pub id: String,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}
