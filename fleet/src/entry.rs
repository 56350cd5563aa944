//! The second life of a program with an embedded fleet: as the runner of one of its containers.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// First argument of a program that is started as the runner. The worker passes it.
const RUNNER: &str = "__runner";

/// Whether this program calls [`runner_entry`].
static CALLED: AtomicBool = AtomicBool::new(false);

/// If this process was started as `<exe> __runner …`, runs the runner and gives its exit status. Otherwise, gives
/// `None` at once.
///
/// Every program that uses [`crate::Fleet::embedded`] must call this first in its `main`, while the process has only
/// one thread: before it starts a runtime, and before it reads its own arguments.
///
/// ```no_run
/// use std::process::ExitCode;
///
/// fn main() -> ExitCode {
///     if let Some(status) = thermae_fleet::runner_entry() {
///         return status;
///     }
///     // The program itself.
///     ExitCode::SUCCESS
/// }
/// ```
pub fn runner_entry() -> Option<ExitCode> {
    CALLED.store(true, Ordering::Relaxed);
    let mut args = std::env::args_os().skip(1);
    (args.next()? == RUNNER).then(|| thermae_runner::main_with(args))
}

/// Whether [`runner_entry`] was called in this process. If not, a runner would be the whole program once more, with an
/// embedded fleet of its own.
pub(crate) fn called() -> bool {
    CALLED.load(Ordering::Relaxed)
}
