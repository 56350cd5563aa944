//! Pages and examples whose commands are run.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::thermae::Thermae;

/// A file of the project.
pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

pub(crate) fn text(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap()
}

/// Runs a script in the folder, with these variables instead of the developer's own, and gives its output.
pub(crate) fn bash(thermae: &Thermae, variables: &[(&str, &str)], script: &str) -> String {
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", script]).current_dir(thermae.path());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("THERMAE_")) {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied());
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script}\n{out}\n{err}");
    out.into_owned()
}

/// Runs all blocks of a page that are fenced as `sh`, and compares what they print with the blocks fenced as `text` that
/// follow them. There must be at least `least` blocks.
pub(crate) fn runs(thermae: &Thermae, variables: &[(&str, &str)], page: &str, least: usize) {
    let blocks = blocks(page);
    assert!(blocks.len() >= least, "{blocks:?}");
    // One script, because later blocks use what earlier ones set.
    let mark = "-- the next block --\n";
    let script: String = blocks.iter().map(|(block, _)| format!("{block}printf -- '{mark}'\n")).collect();
    let printed = bash(thermae, variables, &script);
    let printed: Vec<&str> = printed.split_terminator(mark).collect();
    for ((block, shown), printed) in blocks.iter().zip(&printed) {
        assert_eq!(printed, shown, "{block}");
    }
    assert_eq!(printed.len(), blocks.len());
}

/// The blocks of commands of a page, each with the output that the page shows.
fn blocks(page: &str) -> Vec<(String, String)> {
    let mut blocks: Vec<(String, String)> = Vec::new();
    let (mut lines, mut last) = (page.lines(), "");
    while let Some(line) = lines.next() {
        let Some(fence) = line.strip_prefix("```") else { continue };
        let block: String = lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect();
        match (fence, last) {
            ("sh", _) => blocks.push((block, String::new())),
            ("text", "sh") => blocks.last_mut().unwrap().1 = block,
            _ => {}
        }
        last = fence;
    }
    blocks
}

/// What an example prints, as its comment says: the indented lines after `It prints:`.
pub(crate) fn promised(example: &str) -> String {
    let (_, rest) = example.split_once("# It prints:\n#\n").unwrap();
    let lines = rest.lines().map_while(|line| line.strip_prefix("#     "));
    lines.map(|line| format!("{line}\n")).collect()
}
