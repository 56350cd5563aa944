//! Sets resource limits that the runner's parent may have left open, for the runner and everything that it starts: on
//! real-time priority, nice values and core dumps. This is the first step of the runner.

use std::fs;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::{Context, Error, Result};

/// With this core limit the kernel neither writes a core file nor starts a crash handler. With 0 it would still start
/// the handler.
const NO_CORE: u64 = 1;

/// Sets the limits.
///
/// # Errors
/// [`Error::CoreDumps`] if the machine's crash handler would be started for jobs.
pub(crate) fn set_limits() -> Result<()> {
    let both = |value| Rlimit { current: Some(value), maximum: Some(value) };
    for resource in [Resource::Rtprio, Resource::Nice] {
        match setrlimit(resource, both(0)) {
            // gVisor refuses to set these limits; Docker has set them to 0 already.
            Err(Errno::PERM) if getrlimit(resource).maximum == Some(0) => {}
            set => set.step(format!("set {resource:?}"))?,
        }
    }
    let limited = match setrlimit(Resource::Core, both(NO_CORE)) {
        Ok(()) => true,
        Err(Errno::PERM) => false,
        Err(e) => return Err(e).step("set the limit on core dumps"),
    };
    // Unreadable where /proc is hidden. The machine's handler is then unknown and assumed to be harmless.
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    match danger(&pattern, limited) {
        None => Ok(()),
        Some(why) => Err(Error::CoreDumps(why.into())),
    }
}

/// Why a job's crash would reach a program of the machine; `None` if it wouldn't. `limited` says whether the core limit
/// is [`NO_CORE`].
fn danger(pattern: &str, limited: bool) -> Option<&'static str> {
    match pattern.trim_start().chars().next() {
        Some('@') => Some(
            "this machine hands crashed programs to a socket (kernel.core_pattern begins with @), and no limit keeps jobs from that: \
             let the pattern name a file, or a program (|)",
        ),
        Some('|') if !limited => Some(
            "this machine starts a program for each that crashes (kernel.core_pattern begins with |). Only a core limit of 1 keeps jobs \
             from that, and this user's hard limit is 0: raise it to 1 (ulimit -Hc, LimitCORE=)",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_of_the_machines_is_never_left_within_reach() {
        assert!(danger("|/usr/share/apport/apport %p\n", false).is_some());
        assert_eq!(danger("|/usr/share/apport/apport %p\n", true), None);
        assert!(danger("@/run/cores\n", true).is_some());
        assert_eq!(danger("core.%p\n", false), None);
        assert_eq!(danger("", false), None);
    }
}
