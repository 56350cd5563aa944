//! The program `thermae`. Everything it does is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    thermae::main()
}
