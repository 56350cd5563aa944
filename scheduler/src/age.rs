//! How old a message is.
//!
//! A client says when it submitted (`x-submitted`), by its own clock. RabbitMQ can be configured to add when the
//! message arrived (`timestamp_in_ms`). The earlier of the two times counts. A time that is too far ahead of this
//! machine's clock is ignored.

use thermae_backplane::bus::Message;
use thermae_schemas::names;

/// How far apart the clocks of clients, brokers and the registry may be, in milliseconds.
pub(crate) const MARGIN: u64 = 5 * 60 * 1000;

/// When the message was submitted, in milliseconds since 1970. `None` if it has no credible time.
pub(crate) fn submitted(message: &Message, now: u64) -> Option<u64> {
    let said = |name: &str| {
        let at = message.headers.int(name).and_then(|ms| u64::try_from(ms).ok())?;
        // A client's clock may be a little ahead. That must not make the message younger than it is.
        (at <= now.saturating_add(MARGIN)).then_some(at.min(now))
    };
    [names::H_SUBMITTED, names::H_RECEIVED].into_iter().filter_map(said).min()
}

/// The earliest time at which a copy of the message may have been admitted, by the registry's clock. A message without
/// a time may be as old as a message can be.
pub(crate) fn earliest(submitted: Option<u64>, now: u64, max_age: u64) -> u64 {
    submitted.map_or_else(|| now.saturating_sub(max_age), |at| at.saturating_sub(MARGIN))
}

/// Adds the time of arrival to a message that has no time, if it hasn't passed through the fleet before.
pub(crate) fn stamp(message: &mut Message, now: u64) {
    let at = submitted(message, now).unwrap_or(now);
    message.headers.set_int(names::H_SUBMITTED, i64::try_from(at).unwrap_or(i64::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000_000;

    fn message(submitted: Option<u64>, received: Option<u64>) -> Message {
        let mut message = Message::default();
        for (name, at) in [(names::H_SUBMITTED, submitted), (names::H_RECEIVED, received)] {
            if let Some(at) = at {
                message.headers.set_int(name, i64::try_from(at).unwrap());
            }
        }
        message
    }

    #[test]
    fn the_earlier_word_counts() {
        assert_eq!(submitted(&message(None, None), NOW), None);
        assert_eq!(submitted(&message(Some(NOW - 5), None), NOW), Some(NOW - 5));
        assert_eq!(submitted(&message(Some(NOW - 5), Some(NOW - 9)), NOW), Some(NOW - 9));
    }

    #[test]
    fn a_clock_that_is_ahead_makes_nothing_younger() {
        assert_eq!(submitted(&message(Some(NOW + MARGIN), None), NOW), Some(NOW));
        assert_eq!(submitted(&message(Some(NOW + MARGIN + 1), None), NOW), None);
        assert_eq!(submitted(&message(Some(NOW + MARGIN + 1), Some(NOW - 7)), NOW), Some(NOW - 7));
    }

    #[test]
    fn what_may_be_a_repeat_is_as_old_as_it_may_be() {
        assert_eq!(earliest(Some(NOW), NOW, 10 * MARGIN), NOW - MARGIN);
        assert_eq!(earliest(None, NOW, 10 * MARGIN), NOW - 10 * MARGIN);
    }

    #[test]
    fn a_stamp_is_never_later_than_what_is_known() {
        let mut known = message(None, Some(NOW - 9));
        stamp(&mut known, NOW);
        assert_eq!(submitted(&known, NOW + 50), Some(NOW - 9));
        let mut unknown = message(None, None);
        stamp(&mut unknown, NOW);
        assert_eq!(submitted(&unknown, NOW + 50), Some(NOW));
    }
}
