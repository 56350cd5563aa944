//! `thermae key`: API keys of a gateway. The program `thermae-gateway` does the work, because only it has a client of
//! the stores of keys.

use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use crate::args::KeyArgs;
use crate::failure::Failure;

const PROGRAM: &str = "thermae-gateway";

/// Becomes `thermae-gateway key` with these arguments: the one beside this program, or the one in `PATH`. Returns only
/// if that can't be.
pub(crate) fn key(args: &KeyArgs) -> Failure {
    let program = beside().unwrap_or_else(|| PROGRAM.into());
    let error = Command::new(&program).arg("key").args(&args.args).exec();
    let message = match error.kind() {
        ErrorKind::NotFound => format!("{PROGRAM} is neither beside this program nor in PATH"),
        _ => format!("{} can't be started: {error}", program.display()),
    };
    Failure::usage("no_gateway_program", message)
        .help("build it with `cargo build --release -p thermae-gateway-program`, or install it beside thermae")
}

/// The program beside this one, if it is there.
fn beside() -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?.with_file_name(PROGRAM);
    path.is_file().then_some(path)
}
