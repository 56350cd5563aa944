//! The few requests to a Docker engine that making images takes.

use std::{
    path::{Path, PathBuf},
    process::Output,
};

use anyhow::{Result, bail};

use crate::services::docker;

/// A Docker engine, known by its socket.
#[derive(Debug, Clone)]
pub(crate) struct Engine {
    /// The engine's Unix socket.
    pub(crate) socket: PathBuf,
}

impl Engine {
    /// The machine's engine: the socket in `DOCKER_HOST` if it names one, else the usual one.
    pub(crate) fn of_machine() -> Self {
        let named = std::env::var("DOCKER_HOST").ok();
        let socket = named.as_deref().and_then(|host| host.strip_prefix("unix://")).unwrap_or("/var/run/docker.sock");
        Self { socket: PathBuf::from(socket) }
    }

    /// Runs a `docker` command. Gives its output without the last line break; the error has what it wrote to stderr.
    pub(crate) fn run(&self, args: &[&str]) -> Result<String> {
        let output = self.output(args)?;
        if !output.status.success() {
            bail!("docker {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }

    /// Runs a `docker` command, and gives its output even if it fails.
    pub(crate) fn output(&self, args: &[&str]) -> Result<Output> {
        docker::command(&self.socket, args)
    }

    /// One label of an image; `None` if the image or the label is missing.
    pub(crate) fn label(&self, image: &str, label: &str) -> Option<String> {
        let format = format!("{{{{index .Config.Labels {label:?}}}}}");
        let output = self.output(&["image", "inspect", "--format", &format, image]).ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        (output.status.success() && !text.is_empty() && text != "<no value>").then_some(text)
    }

    /// Imports a root file system as an image; `changes` are lines of a Dockerfile (`ENV`, `LABEL`, …).
    pub(crate) fn import(&self, tar: &Path, image: &str, changes: &[String]) -> Result<()> {
        let tar = tar.display().to_string();
        let mut args = vec!["import"];
        for change in changes {
            args.extend(["--change", change]);
        }
        args.extend([tar.as_str(), image]);
        self.run(&args).map(drop)
    }

    /// Puts files on top of an image and names the result `image`. No container runs for this.
    pub(crate) fn add_files(&self, base: &str, files: &[(&Path, &str)], image: &str, changes: &[String]) -> Result<()> {
        let former = self.output(&["image", "inspect", "--format", "{{.Id}}", image])?;
        let container = self.run(&["create", "--network", "none", base, "/none"])?;
        let made = self.copy_and_commit(&container, files, image, changes);
        let removed = self.run(&["rm", "--force", &container]);
        if former.status.success() && made.is_ok() {
            // The former image has no name now. Docker keeps it if a container still uses it.
            self.output(&["image", "rm", String::from_utf8_lossy(&former.stdout).trim()])?;
        }
        made.and(removed.map(drop))
    }

    fn copy_and_commit(&self, container: &str, files: &[(&Path, &str)], image: &str, changes: &[String]) -> Result<()> {
        for (from, to) in files {
            self.run(&["cp", &from.display().to_string(), &format!("{container}:{to}")])?;
        }
        let mut args = vec!["commit"];
        for change in changes {
            args.extend(["--change", change]);
        }
        args.extend([container, image]);
        self.run(&args).map(drop)
    }
}
