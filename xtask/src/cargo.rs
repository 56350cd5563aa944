//! Running cargo from inside `cargo run`.

use std::process::Command;

use crate::paths;

/// Prefixes of the variables that `cargo run` sets for the program it starts.
const OF_RUN: [&str; 5] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"];

/// A cargo command in the workspace's root.
///
/// It sees no variable that `cargo run` has set for this program. Build scripts that watch such variables (`ring` has one) would
/// run again for every change between cargo in a shell and cargo from here, and all that depends on them would be built again.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(paths::root());
    for (name, _) in std::env::vars_os() {
        if OF_RUN.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command
}
