//! Runs every command of the README, in the README's order.
//!
//! A block fenced as `sh` is one script, which runs in the workspace's root. The fleet of `compose.yaml` runs on other
//! ports, so the usual ports in the script are replaced. A block fenced as `sh skip=REASON` is not run; the reason is
//! printed.

use std::{path::Path, process::Command, time::Duration};

use anyhow::{Context, Result, bail};

use crate::{paths, services, supervise};

/// One fenced block of commands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The first command in the block, for the output.
    pub(crate) title: String,
    /// Why the block is not run; `None` if it is.
    pub(crate) skip: Option<String>,
    script: String,
}

/// The blocks of the README, in order.
pub(crate) fn blocks() -> Result<Vec<Block>> {
    let text = std::fs::read_to_string(paths::root().join("README.md")).context("read README.md")?;
    let blocks = parse(&text);
    if blocks.is_empty() {
        bail!("README.md has no block of commands");
    }
    Ok(blocks)
}

impl Block {
    /// Runs the block. Its output goes to the log.
    pub(crate) fn run(&self, environment: &[(&str, String)], ports: &[(u16, u16)], log: &Path) -> Result<()> {
        let mut script = self.script.clone();
        for (usual, port) in ports {
            for host in ["127.0.0.1", "localhost"] {
                script = script.replace(&format!("{host}:{usual}"), &format!("{host}:{port}"));
            }
        }
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", &script]).current_dir(paths::root());
        crate::cargo::forget_run(&mut command);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let done = supervise::run(command, log, Duration::from_secs(1800), |_| {})?;
        match done.failure {
            None => Ok(()),
            Some(why) => bail!("{why}\n{}", services::tail(log, 20)),
        }
    }
}

fn parse(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(fence) = line.trim_start().strip_prefix("```") else { continue };
        let body: Vec<&str> = lines.by_ref().take_while(|line| !line.trim_start().starts_with("```")).collect();
        let (language, rest) = fence.split_once(' ').unwrap_or((fence, ""));
        if language != "sh" {
            continue;
        }
        let title = body.iter().find(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
        blocks.push(Block {
            title: title.unwrap_or(&"").trim().to_owned(),
            skip: rest.trim().strip_prefix("skip=").map(str::to_owned),
            script: body.join("\n"),
        });
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blocks_of_commands_are_taken() {
        let found = parse(
            "text\n```sh\n# a word\none\ntwo\n```\n```json\n{}\n```\n```sh skip=it is what runs\ncargo xtask test\n```\n```\nx\n```\n",
        );
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].title.as_str(), found[0].script.as_str()), ("one", "# a word\none\ntwo"));
        assert_eq!(found[1].skip.as_deref(), Some("it is what runs"));
    }
}
