//! Counts the requests of a key against its limit.

use std::num::NonZeroU32;
use std::time::Duration;

/// Milliseconds of a minute: one request's share of a bucket is this much, and each millisecond adds the limit.
const SHARE: u64 = 60_000;

/// A bucket of requests (token bucket). It holds the requests of one minute and fills evenly. So within any time of `t`
/// minutes, it lets at most `limit × (t + 1)` requests through.
///
/// It has no clock: whoever asks says the time, in milliseconds from anywhere. A time before the last one counts as
/// that.
#[derive(Debug, Clone)]
pub struct Bucket {
    limit: u64,
    /// Shares of requests, [`SHARE`] for each.
    level: u64,
    at_ms: u64,
}

/// The bucket is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many requests; the next one is possible in {} ms", .0.as_millis())]
pub struct Wait(pub Duration);

impl Bucket {
    /// A full bucket for so many requests per minute.
    pub fn new(per_minute: NonZeroU32, now_ms: u64) -> Self {
        let limit = u64::from(per_minute.get());
        Self { limit, level: limit * SHARE, at_ms: now_ms }
    }

    /// Takes one request.
    ///
    /// # Errors
    /// The bucket is empty. Nothing was taken. The error says after which time one request can be taken.
    pub fn take(&mut self, now_ms: u64) -> Result<(), Wait> {
        let passed = now_ms.saturating_sub(self.at_ms);
        self.level = passed.saturating_mul(self.limit).saturating_add(self.level).min(self.limit * SHARE);
        self.at_ms = self.at_ms.max(now_ms);
        match self.level.checked_sub(SHARE) {
            Some(left) => {
                self.level = left;
                Ok(())
            }
            None => Err(Wait(Duration::from_millis((SHARE - self.level).div_ceil(self.limit)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bucket(limit: u32) -> Bucket {
        Bucket::new(NonZeroU32::new(limit).unwrap(), 0)
    }

    #[test]
    fn a_minute_of_requests_can_come_at_once_and_then_they_come_evenly() {
        let mut bucket = bucket(60);
        assert!((0..60).all(|_| bucket.take(0).is_ok()));
        assert_eq!(bucket.take(0), Err(Wait(Duration::from_secs(1))));
        assert_eq!(bucket.take(400), Err(Wait(Duration::from_millis(600))));
        assert_eq!(bucket.take(999), Err(Wait(Duration::from_millis(1))));
        assert_eq!((bucket.take(1000), bucket.take(1000).is_ok()), (Ok(()), false));
        // A clock that is set back gives nothing.
        assert!(bucket.take(0).is_err() && bucket.take(1999).is_err() && bucket.take(2000).is_ok());
        // A bucket never holds more than a minute's requests.
        assert_eq!((0..100).filter(|_| bucket.take(10_000_000).is_ok()).count(), 60);
    }

    #[test]
    fn the_largest_numbers_do_no_harm() {
        let mut bucket = bucket(u32::MAX);
        assert!(bucket.take(u64::MAX).is_ok() && bucket.take(0).is_ok());
    }

    proptest! {
        #[test]
        fn no_window_has_more_than_the_limit_allows(
            limit in 1..500_u32, gaps in prop::collection::vec(prop_oneof![0..50_u64, 0..20_000_u64], 1..400),
        ) {
            let mut bucket = bucket(limit);
            let mut now = 0;
            let mut taken = Vec::new();
            for gap in gaps {
                now += gap;
                if let Err(Wait(wait)) = bucket.clone().take(now) {
                    let wait = wait.as_millis() as u64;
                    prop_assert!(wait > 0);
                    // The time that is told is right, to the millisecond.
                    prop_assert!(bucket.clone().take(now + wait - 1).is_err());
                    prop_assert!(bucket.clone().take(now + wait).is_ok());
                }
                if bucket.take(now).is_ok() {
                    taken.push(now);
                }
            }
            for (first, from) in taken.iter().enumerate() {
                for (last, to) in taken.iter().enumerate().skip(first) {
                    let count = (last - first + 1) as u64;
                    prop_assert!(count * SHARE <= u64::from(limit) * (to - from + SHARE));
                }
            }
        }
    }
}
