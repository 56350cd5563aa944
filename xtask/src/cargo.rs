//! Running cargo from a program that `cargo run` started.

use std::process::Command;

use crate::paths;

/// Prefixes of the variables that `cargo run` sets for the program it starts.
const OF_RUN: [&str; 5] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"];

/// A cargo command in the workspace's root.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(paths::root());
    forget_run(&mut command);
    command
}

/// Removes the variables that `cargo run` set for this program from a command that starts cargo, now or later.
///
/// Build scripts that watch such variables (`ring` has one) would run again whenever builds from a shell and from here
/// alternate, and their dependents would be rebuilt.
pub(crate) fn forget_run(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if OF_RUN.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
}
