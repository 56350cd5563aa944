//! Times in tokens: whole seconds since 1970. A time between two seconds becomes the one that gives less.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::Unwritten;

/// The last second of the year 9999.
const LAST: u64 = 253_402_300_799;

/// A time until which something is valid.
pub(crate) fn until(time: SystemTime) -> Result<u64, Unwritten> {
    let seconds = time.duration_since(UNIX_EPOCH).map_err(|_| Unwritten::Time)?.as_secs();
    if seconds <= LAST { Ok(seconds) } else { Err(Unwritten::Time) }
}

/// A time from which something is valid.
pub(crate) fn from(time: SystemTime) -> Result<u64, Unwritten> {
    until(time.checked_add(Duration::from_nanos(999_999_999)).ok_or(Unwritten::Time)?)
}

/// The time at which a block is written, in milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or_default().min(LAST * 1000)
}

/// Reads a time. `None` if it is after the year 9999.
pub(crate) fn read(seconds: u64) -> Option<SystemTime> {
    (seconds <= LAST).then(|| UNIX_EPOCH + Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_between_two_seconds_gives_less() {
        let at = |seconds, nanos| UNIX_EPOCH + Duration::new(seconds, nanos);
        for (seconds, nanos, wanted) in [(7, 0, (7, 7)), (7, 1, (7, 8)), (7, 999_999_999, (7, 8))] {
            let time = at(seconds, nanos);
            assert_eq!((until(time).unwrap(), from(time).unwrap()), wanted, "{seconds}.{nanos}");
        }
        assert_eq!(read(until(at(LAST, 0)).unwrap()), Some(at(LAST, 0)));
        assert!(until(at(LAST + 1, 0)).is_err() && from(at(LAST, 1)).is_err() && read(LAST + 1).is_none());
        assert!(until(UNIX_EPOCH - Duration::from_secs(1)).is_err());
    }
}
