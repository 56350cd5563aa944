//! The calls of one run that wait for their answers.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::time::Instant;

/// The calls of one run that wait for their answers, and how long the code has waited for them. Time in which several
/// calls wait counts once.
pub(crate) struct InFlight<F> {
    calls: FuturesUnordered<F>,
    before: Duration,
    since: Option<Instant>,
}

impl<F: Future> InFlight<F> {
    pub(crate) fn new() -> Self {
        Self { calls: FuturesUnordered::new(), before: Duration::ZERO, since: None }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Number of calls that wait.
    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Adds a call.
    pub(crate) fn push(&mut self, call: F) {
        self.calls.push(call);
        self.since.get_or_insert_with(Instant::now);
    }

    /// Waits for the next answer, of whichever call. `None` if no call waits. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<F::Output> {
        let answered = self.calls.next().await;
        if self.calls.is_empty() {
            self.stop();
        }
        answered
    }

    /// Notes that the code has ended, so that it waits no more.
    pub(crate) fn stop(&mut self) {
        self.before = self.waited();
        self.since = None;
    }

    /// How long at least one call waited.
    pub(crate) fn waited(&self) -> Duration {
        self.before + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}
