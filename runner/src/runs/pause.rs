//! Stops the processes of runs that wait for answers of their tool calls, and continues them.
//!
//! The process is stopped in two steps: it is sent the signal, and when the kernel reports that it has stopped, the
//! runner looks again. From then on, nothing of a fresh sandbox can go on. In a session, only the program's own process
//! is stopped: what earlier programs have left goes on, and so do guests.
//!
//! A program that has set a timer is not stopped: the timer must fire on time. It waits in its slot. In a session, other
//! processes can send signals to a stopped one. The runner looks for them, and continues it when it has a slot.

use std::time::{Duration, Instant};

use super::waits::{Halt, Waits};
use crate::sandboxes::Sandbox;

/// How often other processes of a session may continue the stopped one. Then the run ends.
const MOST_CONTINUED: u32 = 16;

/// How long the process may take to stop again after that.
const AGAIN: Duration = Duration::from_secs(1);

/// How often the stopped process of a session is looked at for signals. The kernel reports none for a process that is
/// stopped.
const SIGNALS: Duration = Duration::from_millis(50);

/// Why such a run ends.
pub(super) const DEFIED: &str = "other processes go on continuing the one that waits";

/// What a look at a run's process has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing that matters.
    Nothing,
    /// The process has stopped, and nothing else of the run goes on.
    Stopped,
    /// The process waits, but must not be stopped.
    Stays,
    /// A signal has come for the stopped process.
    Signaled,
    /// Others continue the process again and again.
    Defied,
}

impl Waits {
    /// Stops the process if the run has waited for long enough. `session` is whether the run is one of a session.
    pub(super) fn check_stop(&mut self, now: Instant, sandbox: &Sandbox, session: bool) -> Change {
        if self.halt == Halt::Stopped && self.signals_at.is_some_and(|at| now >= at) {
            let signaled = sandbox.has_signal();
            self.signals_at = (!signaled).then(|| now + SIGNALS);
            return if signaled { Change::Signaled } else { Change::Nothing };
        }
        if self.stop_at().is_none_or(|at| now < at) {
            return Change::Nothing;
        }
        if self.again_by.is_some() {
            return Change::Defied;
        }
        if !is_alone(sandbox, session) {
            self.refuse();
        } else if self.stays() {
            return Change::Stays;
        } else {
            self.halt = Halt::Asked;
            sandbox.stop();
        }
        Change::Nothing
    }

    /// Looks at the process after the kernel has reported that some process has stopped or continued.
    pub(super) fn look(&mut self, now: Instant, sandbox: &Sandbox, session: bool) -> Change {
        match self.halt {
            Halt::Asked if sandbox.has_stopped() => {
                // What it sent before it stopped may still have to be read.
                if self.goes_on() && sandbox.channel.is_quiet() && is_alone(sandbox, session) {
                    self.stopped(now);
                    // A process that is alone, and has no timers, gets none.
                    self.signals_at = session.then(|| now + SIGNALS);
                    return Change::Stopped;
                }
                self.refuse();
                self.resume(now, sandbox);
                Change::Nothing
            }
            Halt::Stopped if sandbox.was_continued() => {
                self.charge(now);
                sandbox.stop();
                self.continued += 1;
                self.again_by.get_or_insert(now + AGAIN);
                if self.continued > MOST_CONTINUED { Change::Defied } else { Change::Nothing }
            }
            Halt::Stopped if self.again_by.is_some() && sandbox.has_stopped() => {
                self.again_by = None;
                Change::Nothing
            }
            _ => Change::Nothing,
        }
    }

    /// Ends a wait, and continues the process. Returns whether it was stopped.
    pub(super) fn resume(&mut self, now: Instant, sandbox: &Sandbox) -> bool {
        self.end(now);
        let stopped = self.halt != Halt::None;
        if stopped {
            (self.halt, self.again_by, self.signals_at) = (Halt::None, None, None);
            sandbox.resume();
        }
        stopped
    }
}

/// Whether a run is at rest if the sandbox's main process is. Without an inner wall, nobody can tell.
fn is_alone(sandbox: &Sandbox, session: bool) -> bool {
    sandbox.handles.is_some() && (session || sandbox.processes() == 1)
}
