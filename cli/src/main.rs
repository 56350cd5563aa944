//! The program `thermae`. Everything it does is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    // The embedded fleet makes sandboxes by starting this program again. Check this first: then the process still has
    // only one thread.
    thermae::runner_entry().unwrap_or_else(thermae::main)
}
