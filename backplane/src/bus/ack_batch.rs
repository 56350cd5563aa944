//! Acknowledgements that nobody waits for, sent together.

use std::time::Duration;

use tokio::time::Instant;

use super::{Delivery, Error};

/// How long an acknowledgement may wait for others.
const WAIT: Duration = Duration::from_millis(5);
/// A delivery above this size is acknowledged at once: the broker keeps it until then.
const LARGE: usize = 4096;

/// Deliveries of one consumer that are done and not acknowledged yet, in the order in which they came.
///
/// An acknowledgement is a frame of its own, which both sides handle while the next message waits. One frame may
/// acknowledge many. What is lost with a connection before then comes again, as anything that is not acknowledged.
pub struct AckBatch {
    /// Half of the prefetch: the broker goes on sending meanwhile.
    most: usize,
    held: usize,
    last: Option<(Delivery, Instant)>,
}

impl AckBatch {
    /// For a consumer with this prefetch.
    pub fn new(prefetch: u16) -> Self {
        Self { most: usize::from(prefetch / 2).max(1), held: 0, last: None }
    }

    /// Takes the next delivery, and acknowledges all once they are many, large, or have waited.
    ///
    /// # Errors
    /// As for [`Delivery::ack`].
    pub async fn push(&mut self, delivery: Delivery) -> Result<(), Error> {
        let large = delivery.message.body.len() > LARGE;
        let since = self.last.as_ref().map_or_else(Instant::now, |(_, since)| *since);
        self.held += 1;
        self.last = Some((delivery, since));
        if large || self.held >= self.most || since.elapsed() >= WAIT { self.send().await } else { Ok(()) }
    }

    /// Acknowledges all that it holds.
    ///
    /// # Errors
    /// As for [`Delivery::ack`].
    pub async fn send(&mut self) -> Result<(), Error> {
        self.held = 0;
        match self.last.take() {
            Some((delivery, _)) => delivery.ack_multiple().await,
            None => Ok(()),
        }
    }

    /// Waits until what it holds has waited long enough; forever where it holds nothing.
    pub async fn due(&self) {
        match &self.last {
            Some((_, since)) => tokio::time::sleep_until(*since + WAIT).await,
            None => std::future::pending().await,
        }
    }
}
