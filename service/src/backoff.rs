//! Pauses between the attempts at a step that fails.
//!
//! Each pause is twice as long as the one before, up to a limit. Up to a half of it is left out at random, so that
//! processes that failed at the same moment don't try again at the same moment.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};

/// The pauses of one step.
#[derive(Debug)]
pub struct Backoff {
    builder: ExponentialBuilder,
    pauses: ExponentialBackoff,
}

/// Pauses for calls to RabbitMQ and Redis: from 50 ms to 2 s.
impl Default for Backoff {
    fn default() -> Self {
        Self::new(Duration::from_millis(50), Duration::from_secs(2))
    }
}

impl Backoff {
    /// Pauses that begin with at most `first`, and grow to at most `longest`.
    pub fn new(first: Duration, longest: Duration) -> Self {
        // The library adds the random part to the pause, and adds at most as much again.
        let builder = ExponentialBuilder::new()
            .with_min_delay(first / 2)
            .with_max_delay(longest / 2)
            .without_max_times()
            .with_jitter();
        Self { pauses: builder.build(), builder }
    }

    /// Pauses that don't grow.
    pub fn steady(pause: Duration) -> Self {
        Self::new(pause, pause)
    }

    /// The length of the next pause.
    pub fn next_pause(&mut self) -> Duration {
        self.pauses.next().unwrap_or_default()
    }

    /// Waits for the next pause.
    pub async fn wait(&mut self) {
        tokio::time::sleep(self.next_pause()).await;
    }

    /// Notes that the step succeeded: the next pause is as short as the first.
    pub fn reset(&mut self) {
        self.pauses = self.builder.build();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_limit_and_begin_again_after_a_success() {
        let millis = Duration::from_millis;
        let mut pauses = Backoff::new(millis(50), millis(300));
        for _ in 0..2 {
            for most in [50, 100, 200, 300, 300] {
                let pause = pauses.next_pause();
                assert!(pause >= millis(most / 2) && pause <= millis(most), "{pause:?} of {most} ms");
            }
            pauses.reset();
        }
        let mut steady = Backoff::steady(millis(50));
        assert!((0..9).all(|_| steady.next_pause() <= millis(50)));
    }
}
