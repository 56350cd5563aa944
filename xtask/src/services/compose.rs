//! Docker Compose, where this machine has it.

use std::{
    path::Path,
    process::{Command, Output},
};

use anyhow::{Context, Result};

use crate::paths;

/// A Compose that can be run: the engine's plug-in, or the program of its own.
#[derive(Debug, Clone)]
pub(crate) struct Compose {
    program: Vec<String>,
    environment: Vec<(&'static str, String)>,
}

impl Compose {
    /// Looks for it.
    pub(crate) fn find() -> Option<Self> {
        let works = |program: &[&str]| {
            let (first, rest) = program.split_first()?;
            let output = Command::new(first).args(rest).arg("version").output().ok()?;
            output.status.success().then(|| program.iter().map(ToString::to_string).collect())
        };
        let program = works(&["docker", "compose"]).or_else(|| works(&["docker-compose"]))?;
        Some(Self { program, environment: Vec::new() })
    }

    /// This program, with an environment of its own: `DOCKER_HOST`, and what `compose.yaml` lets one set.
    pub(crate) fn with(program: &Path, environment: Vec<(&'static str, String)>) -> Self {
        Self { program: vec![program.display().to_string()], environment }
    }

    /// Makes the command, to be run in the workspace's root on `compose.yaml`.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut words = self.program.iter();
        let mut command = Command::new(words.next().map_or("docker", String::as_str));
        command.args(words).args(args).current_dir(paths::root());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs it, and waits for it.
    pub(crate) fn run(&self, args: &[&str]) -> Result<Output> {
        self.command(args).output().with_context(|| format!("start {}", self.program.join(" ")))
    }

    /// The images of some services are here, or can be pulled.
    pub(crate) fn has_images(&self, services: &[&str]) -> bool {
        let mut args = vec!["pull", "--quiet", "--policy", "missing"];
        args.extend(services);
        self.run(&args).is_ok_and(|output| output.status.success())
    }
}
