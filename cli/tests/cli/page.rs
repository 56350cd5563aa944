//! What a reader of the documentation has: a folder with the project's examples, the programs in `PATH`, and a shell.

use std::path::Path;
use std::process::Command;

use thermae_testkit::page::{Block, path};

use crate::thermae::Thermae;

/// A folder with the examples, and the programs that a page uses.
pub(crate) fn folder() -> Thermae {
    let thermae = Thermae::new();
    let link = |target: &Path, name: &str| std::os::unix::fs::symlink(target, thermae.path().join(name)).unwrap();
    std::fs::create_dir(thermae.path().join("bin")).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_thermae"));
    link(program, "bin/thermae");
    let token = program.with_file_name("thermae-token");
    assert!(token.is_file(), "{} is not built: cargo build --release -p thermae-token", token.display());
    link(&token, "bin/thermae-token");
    link(&path("examples"), "examples");
    thermae
}

/// Runs a script in the folder, with these variables instead of the developer's own, and gives its output.
pub(crate) fn bash(thermae: &Thermae, variables: &[(&str, &str)], script: &str) -> String {
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", script]).current_dir(thermae.path());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("THERMAE_")) {
        command.env_remove(name);
    }
    let programs = thermae.path().join("bin").display().to_string();
    command.env("PATH", format!("{programs}:{}", std::env::var("PATH").unwrap()));
    command.envs(variables.iter().copied());
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script}\n{out}\n{err}");
    out.into_owned()
}

/// Runs the commands of a page, and compares what they print with what the page says. `here` is the text of the page
/// that is another one in the test, such as an address, and what it is.
pub(crate) fn runs(thermae: &Thermae, variables: &[(&str, &str)], page: &str, blocks: &[Block], here: (&str, &str)) {
    // One script, because later blocks use what earlier ones set.
    let mark = "-- the next block --\n";
    let script: String = blocks.iter().map(|block| format!("{}printf -- '{mark}'\n", block.text)).collect();
    let printed = bash(thermae, variables, &script.replace(here.0, here.1));
    let printed: Vec<&str> = printed.split_terminator(mark).collect();
    for (block, printed) in blocks.iter().zip(&printed) {
        assert_eq!(*printed, block.prints, "{page}, line {}\n{}", block.line, block.text);
    }
    assert_eq!(printed.len(), blocks.len());
}

/// What an example prints, as its comment says: the indented lines after `It prints:`.
pub(crate) fn promised(example: &str) -> String {
    let (_, rest) = example.split_once("# It prints:\n#\n").unwrap();
    let lines = rest.lines().map_while(|line| line.strip_prefix("#     "));
    lines.map(|line| format!("{line}\n")).collect()
}
