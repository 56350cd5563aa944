//! Outages of the broker and the registry: they are logged once, and waited out with growing pauses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::Trouble;

/// Whether there is an outage, so that it is logged once and not for every message.
#[derive(Clone, Default)]
pub(crate) struct Outages(Arc<AtomicBool>);

impl Outages {
    /// Notes an error after which the step is tried again.
    pub(crate) fn note(&self, error: &Trouble) {
        if matches!(error, Trouble::Stopped) {
            return;
        }
        if self.0.swap(true, Ordering::Relaxed) {
            tracing::debug!(%error, "still failing");
        } else {
            tracing::warn!(%error, "intake is paused until this works again");
        }
    }

    /// Notes that a step has succeeded.
    pub(crate) fn over(&self) {
        if self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed) {
            tracing::info!("it works again; intake continues");
        }
    }
}

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);

/// A pause that doubles each time, up to a limit.
pub(crate) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Backoff {
    /// The length of the next pause.
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
