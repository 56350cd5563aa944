//! What a client may say about a job that it has submitted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::JobId;

/// Stop a job: before it starts it never runs, and while it runs its sandbox is killed. The outcome is `cancelled`,
/// unless the job ended first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cancel {
    /// Version of the wire.
    #[serde(default = "crate::first_protocol")]
    pub protocol: u32,
    /// Which job.
    pub job: JobId,
}

impl Cancel {
    /// A cancel of this job.
    pub fn new(job: JobId) -> Self {
        Self { protocol: crate::PROTOCOL, job }
    }
}
