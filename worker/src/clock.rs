//! The clock of leases and deadlines. Nobody can set it, and it goes on while the machine sleeps.
//!
//! [`std::time::Instant`] (`CLOCK_MONOTONIC`) stands still while the machine is suspended, so that a lease would
//! outlast the sleep.

use std::ops::Add;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A moment, as the time since the machine's boot (`CLOCK_BOOTTIME`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(Duration);

impl Moment {
    /// The present moment.
    pub(crate) fn now() -> Self {
        let now = clock_gettime(ClockId::Boottime);
        let nanoseconds = u32::try_from(now.tv_nsec).unwrap_or_default();
        Self(Duration::new(u64::try_from(now.tv_sec).unwrap_or_default(), nanoseconds))
    }

    /// Time since this moment.
    pub(crate) fn elapsed(self) -> Duration {
        Self::now().0.saturating_sub(self.0)
    }

    /// Time until this moment; zero if it has passed.
    pub(crate) fn left(self) -> Duration {
        self.0.saturating_sub(Self::now().0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_from_the_boot_as_the_kernel_does() {
        let uptime = || {
            let text = std::fs::read_to_string("/proc/uptime").unwrap();
            let seconds: f64 = text.split(' ').next().unwrap().parse().unwrap();
            Duration::from_secs_f64(seconds)
        };
        let (before, now, after) = (uptime(), Moment::now().0, uptime());
        // The file has a resolution of a hundredth of a second.
        assert!(before <= now + Duration::from_millis(10) && now <= after + Duration::from_millis(10));
        let then = Moment::now() + Duration::from_secs(3600);
        assert!(then.left() > Duration::from_secs(3000) && then.elapsed().is_zero());
    }
}
