//! Heartbeats out of turn, for those who can't wait for the next one.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Notify, watch};

/// Asks for a heartbeat at once, and waits until it has arrived.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    /// Number of heartbeats that were asked for.
    asked: AtomicU64,
    now: Notify,
    /// Value of `asked` when the last heartbeat that arrived was written.
    arrived: watch::Sender<u64>,
}

impl Pulse {
    /// Waits until a heartbeat has arrived that was written after this call.
    pub(crate) async fn beat(&self) {
        let own = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        self.now.notify_one();
        // The sender lives at least as long as this borrow.
        let _ = self.arrived.subscribe().wait_for(|arrived| *arrived >= own).await;
    }

    /// Asks for a heartbeat, and does not wait for it.
    pub(crate) fn hasten(&self) {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.now.notify_one();
    }

    /// Waits until a heartbeat is asked for.
    pub(crate) async fn wanted(&self) {
        self.now.notified().await;
    }

    /// How many heartbeats were asked for. The heartbeat that is written now answers all of them.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }

    /// Notes that the heartbeat has arrived that was written when so many were asked for.
    pub(crate) fn arrived(&self, asked: u64) {
        self.arrived.send_replace(asked);
    }
}
