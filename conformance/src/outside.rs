//! Runs a module under the plain interpreter, with the flags, environment, descriptors and kind of working directory
//! that a job has.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::{CASES, Side, report::tail};

/// How long a module may take.
const MODULE_TIMEOUT: Duration = Duration::from_secs(300);

/// User and group of the interpreter if this process is root, because sandboxes have no root, either.
const NOBODY: u32 = 65_534;

/// Number of descriptors that a process may have open, the same as for a job.
const OPEN_FILES: u64 = 1024;

/// The interpreter and its environment.
#[derive(Debug)]
pub struct Outside {
    python: PathBuf,
    environment: BTreeMap<String, String>,
}

impl Outside {
    /// Prepares to run the interpreter with the environment variables that jobs get, and sets this process's limits.
    ///
    /// # Errors
    /// This process's limits can't be set to those of jobs.
    pub fn new(python: &Path, environment: BTreeMap<String, String>) -> Result<Self> {
        // The interpreter inherits these limits.
        for (what, most) in [(Resource::Nofile, OPEN_FILES), (Resource::Core, 0)] {
            let limit = Rlimit { current: Some(most), maximum: Some(most) };
            rustix::process::setrlimit(what, limit).with_context(|| format!("limit {what:?}"))?;
        }
        Ok(Self { python: python.to_owned(), environment })
    }

    /// Runs one module, except for the cases that match a pattern in `skip`.
    ///
    /// # Errors
    /// The interpreter can't be started.
    pub async fn run(&self, module: &str, skip: &[&str]) -> Result<Side> {
        let begun = Instant::now();
        let scratch = Scratch::new()?;
        // As in every sandbox: a session of its own, no terminal, and no ignored signal.
        let mut command = tokio::process::Command::new("setsid");
        command
            .args(["env", "--default-signal"])
            .arg(&self.python)
            .args(["-I", "-B"])
            .arg(scratch.at("main.py"))
            .env_clear()
            .envs(&self.environment)
            .env("HOME", scratch.at("workspace"))
            .env("TMPDIR", scratch.at("tmp"))
            .env("CASES_MODULE", module)
            .env("CASES_SKIP", serde_json::to_string(skip)?)
            .env("CASES_REPORT", scratch.at("report.json"))
            .current_dir(scratch.at("workspace"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let mut child = command.spawn().context("start the interpreter (by setsid, of util-linux)")?;
        let group = child.id().and_then(|id| Pid::from_raw(id as i32));
        let (stdout, stderr) = (read(child.stdout.take()), read(child.stderr.take()));
        let ended = tokio::time::timeout(MODULE_TIMEOUT, child.wait()).await;
        // Kill what the module left behind, which may hold the pipes open.
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let trouble = match ended {
            Ok(status) => Some(status.context("wait for the interpreter")?)
                .filter(|status| !status.success())
                .map(|status| status.to_string()),
            Err(_) => {
                child.wait().await.context("wait for the killed interpreter")?;
                Some(format!("took longer than {} s", MODULE_TIMEOUT.as_secs()))
            }
        };
        stdout.abort();
        let stderr = tokio::time::timeout(Duration::from_secs(5), stderr).await;
        let stderr = stderr.ok().and_then(Result::ok).unwrap_or_default();
        let told = match std::fs::read(scratch.at("report.json")) {
            Ok(bytes) => Some(serde_json::from_slice(&bytes).context("read what the interpreter told")?),
            Err(_) => None,
        };
        let stderr = tail(&String::from_utf8_lossy(&stderr));
        Ok(Side { told, trouble, stderr, took_ms: begun.elapsed().as_millis() as u64 })
    }
}

/// Reads a pipe to its end, so that the writer never blocks.
fn read(pipe: Option<impl AsyncRead + Unpin + Send + 'static>) -> tokio::task::JoinHandle<Vec<u8>> {
    tokio::spawn(async move {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes).await;
        }
        bytes
    })
}

/// Folders like those of a sandbox. They are removed on drop.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Result<Self> {
        let scratch = Self(tempfile::tempdir().context("make a temporary directory")?);
        std::fs::write(scratch.at("main.py"), CASES)?;
        let own = rustix::process::geteuid().is_root().then_some(NOBODY);
        for name in ["workspace", "tmp"] {
            std::fs::create_dir(scratch.at(name))?;
            chown(scratch.at(name), own, own)?;
        }
        chown(scratch.0.path(), own, own)?;
        std::fs::set_permissions(scratch.0.path(), std::fs::Permissions::from_mode(0o755))?;
        Ok(scratch)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}
