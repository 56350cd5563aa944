//! Docker Compose, if this machine has it.

use std::{
    path::Path,
    process::{Command, Output},
};

use anyhow::{Context, Result};

use crate::paths;

/// A Compose that can be run: the plug-in of `docker`, or the program `docker-compose`.
#[derive(Debug, Clone)]
pub(crate) struct Compose {
    program: Vec<String>,
    environment: Vec<(&'static str, String)>,
}

impl Compose {
    /// Looks for the plug-in, then for the program. `None` if neither runs.
    pub(crate) fn find() -> Option<Self> {
        let works = |program: &[&str]| {
            let (first, rest) = program.split_first()?;
            let output = Command::new(first).args(rest).arg("version").output().ok()?;
            output.status.success().then(|| program.iter().map(ToString::to_string).collect())
        };
        let program = works(&["docker", "compose"]).or_else(|| works(&["docker-compose"]))?;
        Some(Self { program, environment: Vec::new() })
    }

    /// The given program, with variables such as `DOCKER_HOST` and those that `compose.yaml` reads.
    pub(crate) fn with(program: &Path, environment: Vec<(&'static str, String)>) -> Self {
        Self { program: vec![program.display().to_string()], environment }
    }

    /// A command in the workspace's root, where Compose finds `compose.yaml`.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut words = self.program.iter();
        let mut command = Command::new(words.next().map_or("docker", String::as_str));
        command.args(words).args(args).current_dir(paths::root());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a command, and waits for its end.
    pub(crate) fn run(&self, args: &[&str]) -> Result<Output> {
        self.command(args).output().with_context(|| format!("start {}", self.program.join(" ")))
    }

    /// Whether the images of these services are here or can be pulled.
    pub(crate) fn has_images(&self, services: &[&str]) -> bool {
        let mut args = vec!["pull", "--quiet", "--policy", "missing"];
        args.extend(services);
        self.run(&args).is_ok_and(|output| output.status.success())
    }
}
