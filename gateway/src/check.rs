//! Checks during long answers that the caller may go on: an API key that is revoked must not keep its streams.

use std::sync::Arc;
use std::time::Duration;

use crate::identity::{Caller, Denied, Identity};
use crate::problem::Problem;
use crate::server::Shared;

/// Checks one caller now and then.
pub(crate) struct Check {
    identity: Arc<dyn Identity>,
    caller: Caller,
    every: Duration,
}

impl Check {
    pub(crate) fn of(shared: &Shared, caller: &Caller) -> Self {
        Self { identity: shared.identity.clone(), caller: caller.clone(), every: shared.options.recheck }
    }

    /// Does something for the caller, as long as the caller may go on.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
        tokio::select! {
            biased;
            done = work => done,
            denied = self.denial() => Err(denied.into()),
        }
    }

    /// Waits until the caller may not go on.
    pub(crate) async fn denied(self) -> Denied {
        self.denial().await
    }

    async fn denial(&self) -> Denied {
        loop {
            tokio::time::sleep(self.every).await;
            if let Err(denied) = self.identity.goes_on(&self.caller).await {
                return denied;
            }
        }
    }
}
