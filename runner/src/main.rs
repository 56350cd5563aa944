//! The binary that a container runs.

use std::process::ExitCode;

fn main() -> ExitCode {
    thermae_runner::main_with(std::env::args_os().skip(1))
}
