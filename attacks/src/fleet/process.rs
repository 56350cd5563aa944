//! One process of a fleet.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use thermae_testkit::address;

/// How long a process may take until it is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a process may take to end after SIGTERM.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// A process that serves health checks and metrics. It is killed on drop.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    child: Mutex<Child>,
    http: String,
    log: PathBuf,
}

impl Process {
    /// Starts a program of this build. `config` makes its configuration from the address that it must serve on.
    ///
    /// # Errors
    /// The program is not built.
    pub fn start(name: &'static str, dir: &Path, config: impl FnOnce(&str) -> String) -> Result<Self> {
        Self::spawn(name, dir, |http| {
            let file = dir.join(name).with_extension("toml");
            std::fs::write(&file, config(http))?;
            let mut command = Command::new(program(name)?);
            command.arg("--config").arg(&file);
            Ok(command)
        })
    }

    /// Starts a program. `command` makes its command from the address that it must serve on.
    ///
    /// # Errors
    /// The program can't be started.
    pub fn spawn(name: &'static str, dir: &Path, command: impl FnOnce(&str) -> Result<Command>) -> Result<Self> {
        let http = address::free()?.to_string();
        let log = dir.join(name).with_extension("log");
        let out = File::create(&log)?;
        let mut command = command(&http)?;
        let set: Vec<_> = command.get_envs().map(|(name, _)| name.to_owned()).collect();
        for (variable, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("THERMAE_")) {
            if !set.contains(&variable) {
                command.env_remove(variable);
            }
        }
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        let child = Mutex::new(command.spawn().with_context(|| format!("start {name}"))?);
        Ok(Self { name, child, http, log })
    }

    /// The address that the process serves on.
    pub fn address(&self) -> &str {
        &self.http
    }

    /// Waits until the process is ready.
    ///
    /// # Errors
    /// The process ended, or was not ready in time.
    pub async fn await_ready(&self) -> Result<()> {
        let begun = Instant::now();
        while !self.get("/readyz").is_ok_and(|answer| answer.split(' ').nth(1) == Some("200")) {
            self.alive()?;
            ensure!(
                begun.elapsed() < READY_TIMEOUT,
                "{} was not ready within {READY_TIMEOUT:?}:\n{}",
                self.name,
                self.logged()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Checks that the process lives.
    ///
    /// # Errors
    /// The process has ended. The message has its status and the end of its log.
    pub fn alive(&self) -> Result<()> {
        match self.child.lock().unwrap_or_else(PoisonError::into_inner).try_wait()? {
            Some(status) => bail!("{} ended with {status}:\n{}", self.name, self.logged()),
            None => Ok(()),
        }
    }

    /// A metric's value, summed over all labels.
    ///
    /// # Errors
    /// The process does not answer.
    pub fn metric(&self, name: &str) -> Result<f64> {
        let text = self.get("/metrics")?;
        let values = text.lines().filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            (series.split('{').next() == Some(name)).then(|| value.parse::<f64>().ok())?
        });
        Ok(values.sum())
    }

    /// Resets the peak of the process's memory. Gives its present resident memory, in MiB.
    ///
    /// # Errors
    /// The process is gone.
    pub fn begin_memory(&self) -> Result<u64> {
        std::fs::write(format!("/proc/{}/clear_refs", self.pid()), "5").context("forget the largest size")?;
        self.field("VmRSS")
    }

    /// The peak of the resident memory since [`Self::begin_memory`], in MiB.
    ///
    /// # Errors
    /// The process is gone.
    pub fn largest_memory(&self) -> Result<u64> {
        self.field("VmHWM")
    }

    fn field(&self, name: &str) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status.lines().find(|line| line.starts_with(name)).context("no such field")?;
        Ok(line.split_whitespace().nth(1).context("no value")?.parse::<u64>()? >> 10)
    }

    fn pid(&self) -> u32 {
        self.child.lock().unwrap_or_else(PoisonError::into_inner).id()
    }

    fn get(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(&self.http)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    fn logged(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }

    /// Sends SIGTERM, and waits for the end.
    pub async fn stop(&self) {
        let begun = Instant::now();
        self.signal(Signal::TERM);
        while self.alive().is_ok() && begun.elapsed() < STOP_TIMEOUT {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        if self.alive().is_ok()
            && let Some(pid) = pid
        {
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        if matches!(child.try_wait(), Ok(None)) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The path of a program of this build: below `THERMAE_TEST_BIN`, else beside this program.
///
/// # Errors
/// The program is not there.
pub fn program(name: &str) -> Result<PathBuf> {
    let said = std::env::var_os("THERMAE_TEST_BIN").map(PathBuf::from);
    let own = std::env::current_exe().ok().and_then(|file| Some(file.parent()?.to_path_buf()));
    let found = said.into_iter().chain(own).map(|dir| dir.join(name)).find(|file| file.is_file());
    found.with_context(|| format!("{name} is not built: `cargo build --release --workspace --bins`"))
}
