//! An outcome as it is sent to the client.

use thermae_schemas::Outcome;

use crate::bundle::Bundle;

/// An outcome as it is sent to the client. What the code made stays as the code wrote it.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    /// The outcome, without value and displays.
    pub outcome: Outcome,
    /// Value of the last expression.
    pub value: Option<Bundle>,
    /// What was displayed, in order.
    pub displays: Vec<Bundle>,
}

impl From<Outcome> for Told {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, value: None, displays: Vec::new() }
    }
}
