//! Outages of the broker and the registry: logged once, waited out with growing pauses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::Trouble;

/// Whether an outage is under way, so that it is logged once and not by every message.
#[derive(Clone, Default)]
pub(crate) struct Outages(Arc<AtomicBool>);

impl Outages {
    /// Something failed that will be tried again.
    pub(crate) fn note(&self, error: &Trouble) {
        if matches!(error, Trouble::Stopped) {
            return;
        }
        if self.0.swap(true, Ordering::Relaxed) {
            tracing::debug!(%error, "still failing");
        } else {
            tracing::warn!(%error, "intake pauses until this works again");
        }
    }

    /// Something worked.
    pub(crate) fn over(&self) {
        if self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed) {
            tracing::info!("works again");
        }
    }
}

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);

/// Pauses that double.
pub(crate) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Backoff {
    /// The next pause.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (self.0 * 2).min(LONGEST);
        pause
    }

    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(self.next()).await;
    }

    pub(crate) fn reset(&mut self) {
        self.0 = FIRST;
    }
}
