//! Acknowledgements that nothing waits for, sent together.

use std::time::Duration;

use tokio::time::Instant;

use super::{Delivery, Error};

/// How long an acknowledgement may wait for others.
const WAIT: Duration = Duration::from_millis(5);
/// A delivery above this size, in bytes, is acknowledged at once, because the broker keeps it until then.
const LARGE: usize = 4096;

/// Deliveries of one consumer that are done but not acknowledged yet, in the order in which they came.
///
/// An acknowledgement is a frame of its own, which both sides handle while the next message waits. One frame can
/// acknowledge many deliveries. If the connection is lost before that, the broker delivers them again, like everything
/// that is not acknowledged.
pub struct AckBatch {
    /// Deliveries to hold at most: half of the prefetch, so that the broker goes on sending meanwhile.
    most: usize,
    held: usize,
    last: Option<(Delivery, Instant)>,
}

impl AckBatch {
    /// An empty batch, for a consumer with this prefetch.
    pub fn new(prefetch: u16) -> Self {
        Self { most: usize::from(prefetch / 2).max(1), held: 0, last: None }
    }

    /// Takes the next delivery. Acknowledges all of them if there are enough, if this one is large, or if the oldest
    /// has waited long enough.
    ///
    /// # Errors
    /// The same as for [`Delivery::ack`].
    pub async fn push(&mut self, delivery: Delivery) -> Result<(), Error> {
        let large = delivery.message.body.len() > LARGE;
        let since = self.last.as_ref().map_or_else(Instant::now, |(_, since)| *since);
        self.held += 1;
        self.last = Some((delivery, since));
        if large || self.held >= self.most || since.elapsed() >= WAIT { self.send().await } else { Ok(()) }
    }

    /// Acknowledges all deliveries that the batch holds.
    ///
    /// # Errors
    /// The same as for [`Delivery::ack`].
    pub async fn send(&mut self) -> Result<(), Error> {
        self.held = 0;
        match self.last.take() {
            Some((delivery, _)) => delivery.ack_multiple().await,
            None => Ok(()),
        }
    }

    /// Waits until the oldest delivery in the batch has waited long enough. Waits forever if the batch is empty.
    pub async fn due(&self) {
        match &self.last {
            Some((_, since)) => tokio::time::sleep_until(*since + WAIT).await,
            None => std::future::pending().await,
        }
    }
}
