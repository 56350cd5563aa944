//! One client's turn to follow a job: from its submit, or from its take-over, until it ends or somebody else follows.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

/// A turn. Its clones are the same turn.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turn(Arc<CancellationToken>);

impl Turn {
    /// Whether both are the same turn.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Ends the turn before its job: the calls that are being answered are given up.
    pub(crate) fn end(&self) {
        self.0.cancel();
    }

    /// Ends with the turn, or by itself.
    pub(crate) fn part(&self) -> CancellationToken {
        self.0.child_token()
    }
}
