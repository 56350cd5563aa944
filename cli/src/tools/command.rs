//! Runs a command for one tool call.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::value::RawValue;
use thermae_schemas::json::measure_unique;
use thermae_schemas::{JobId, ToolFailure};
use thermae_service::units::seconds;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

/// Largest result, in bytes.
const MAX_RESULT: usize = 16 << 20;
/// Bytes of the end of standard error that go into the `ToolError`.
const MAX_STDERR: usize = 4 << 10;

/// A command that answers calls of a tool.
#[derive(Debug, Clone)]
pub(crate) struct Command {
    /// The program and its arguments.
    pub(crate) words: Vec<String>,
    /// The folder in which the command runs.
    pub(crate) dir: PathBuf,
    /// Environment variables, in addition to this program's own.
    pub(crate) env: BTreeMap<String, String>,
    /// How long one call may take. After that, the command is killed.
    pub(crate) timeout: Duration,
}

impl Command {
    /// Runs the command once. If the future is dropped, the command and everything that it started is killed.
    ///
    /// # Errors
    /// The `ToolError` that the code gets; a `TimeoutError`, too, if the time was over.
    pub(crate) async fn call(
        &self,
        job: &JobId,
        tool: &str,
        arguments: &RawValue,
    ) -> Result<Box<RawValue>, ToolFailure> {
        let late = || ToolFailure {
            kind: Some("TimeoutError".to_owned()),
            ..format!("the tool {tool} did not end within {} and was killed", seconds(self.timeout)).into()
        };
        let answer = tokio::time::timeout(self.timeout, self.run(job, tool, arguments)).await;
        answer.map_err(|_| late())?.map_err(ToolFailure::from)
    }

    async fn run(&self, job: &JobId, tool: &str, arguments: &RawValue) -> Result<Box<RawValue>, String> {
        let mut child = tokio::process::Command::new(&self.words[0])
            .args(&self.words[1..])
            .current_dir(&self.dir)
            .envs(&self.env)
            .env("THERMAE_TOOL", tool)
            .env("THERMAE_JOB", job.as_str())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("the tool {tool} can't be started: {}: {error}", self.words[0]))?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed())).map(Group);
        let input = arguments.get();
        let (mut stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let feed = async {
            if let Some(stdin) = &mut stdin {
                // A tool may not read its arguments. This is no error.
                let _ = stdin.write_all(input.as_bytes()).await;
            }
            drop(stdin.take());
        };
        let ended = async {
            let status = child.wait().await;
            // Kill what the command left behind, which would hold the pipes open.
            drop(group);
            status
        };
        let (status, (), stdout, stderr) = tokio::join!(ended, feed, first(stdout), last(stderr));
        let status = status.map_err(|error| format!("the tool {tool} was lost: {error}"))?;
        if !status.success() {
            let said = String::from_utf8_lossy(&stderr);
            let said = said.trim();
            let how = status.code().map_or_else(|| status.to_string(), |code| format!("status {code}"));
            let colon = if said.is_empty() { "" } else { ": " };
            return Err(format!("the tool {tool} ended with {how}{colon}{said}"));
        }
        if stdout.len() > MAX_RESULT {
            return Err(format!("the tool {tool} printed more than {} MiB", MAX_RESULT >> 20));
        }
        if stdout.trim_ascii().is_empty() {
            return Ok(RawValue::NULL.to_owned());
        }
        // What readers can't read, such as 1e999, or read differently, is no result.
        let read = measure_unique(&stdout, usize::MAX).and_then(|_| serde_json::from_slice(&stdout));
        read.map_err(|error| {
            let start: String = String::from_utf8_lossy(&stdout).chars().take(100).collect();
            let what = if error.is_data() { "printed JSON that can't be used" } else { "did not print JSON" };
            format!("the tool {tool} {what} ({error}): {start:?}")
        })
    }
}

/// Kills a command's process group on drop: when the command has ended, or is given up.
struct Group(Pid);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = kill_process_group(self.0, Signal::KILL);
    }
}

/// The first `MAX_RESULT + 1` bytes. The rest is read and dropped, so that the command never blocks.
async fn first(stream: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut kept = Vec::new();
    read(stream, |chunk| kept.extend_from_slice(&chunk[..chunk.len().min(MAX_RESULT + 1 - kept.len())])).await;
    kept
}

/// The last `MAX_STDERR` bytes.
async fn last(stream: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut kept: Vec<u8> = Vec::new();
    read(stream, |chunk| {
        kept.extend_from_slice(chunk);
        kept.drain(..kept.len().saturating_sub(MAX_STDERR));
    })
    .await;
    kept
}

async fn read(stream: Option<impl AsyncRead + Unpin>, mut take: impl FnMut(&[u8])) {
    let Some(mut stream) = stream else { return };
    let mut buffer = vec![0; 16 << 10];
    while let Ok(n @ 1..) = stream.read(&mut buffer).await {
        take(&buffer[..n]);
    }
}
