//! `thermae`: see the library for what it does.

use std::process::ExitCode;

fn main() -> ExitCode {
    // The embedded fleet's sandboxes are made by this program, started again. Before anything else: they must be single-threaded.
    thermae::runner_entry().unwrap_or_else(thermae::main)
}
