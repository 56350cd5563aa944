//! Docker Compose, where this machine has it.

use std::process::{Command, Output};

use anyhow::{Context, Result};

use crate::paths;

/// A Compose that can be run: the engine's plug-in, or the program of its own.
#[derive(Debug, Clone)]
pub(crate) struct Compose {
    program: Vec<String>,
    host: Option<String>,
}

impl Compose {
    /// Looks for it. `host` is the engine's address; the machine's own where it is missing.
    pub(crate) fn find(host: Option<&str>) -> Option<Self> {
        let works = |program: &[&str]| {
            let (first, rest) = program.split_first()?;
            let output = Command::new(first).args(rest).arg("version").output().ok()?;
            output.status.success().then(|| program.iter().map(ToString::to_string).collect())
        };
        let program = works(&["docker", "compose"]).or_else(|| works(&["docker-compose"]))?;
        Some(Self { program, host: host.map(str::to_owned) })
    }

    /// Runs it in the workspace's root, on `compose.yaml`.
    pub(crate) fn run(&self, args: &[&str]) -> Result<Output> {
        let (first, rest) = self.program.split_first().context("no program")?;
        let mut command = Command::new(first);
        command.args(rest).args(args).current_dir(paths::root());
        if let Some(host) = &self.host {
            command.env("DOCKER_HOST", host);
        }
        command.output().with_context(|| format!("start {}", self.program.join(" ")))
    }

    /// The images of some services are here, or can be pulled.
    pub(crate) fn has_images(&self, services: &[&str]) -> bool {
        let mut args = vec!["pull", "--quiet", "--policy", "missing"];
        args.extend(services);
        self.run(&args).is_ok_and(|output| output.status.success())
    }
}
