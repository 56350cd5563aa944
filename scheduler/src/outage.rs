//! Outages of the broker and the registry: they are logged once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
