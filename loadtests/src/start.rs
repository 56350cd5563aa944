//! The time from the start of a process to its first result, which a person waits for who runs one program.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use serde_json::Value;

use crate::report::Row;

/// How long the machine rests before each start, as it does before a person starts a program. The kernel waits some ten
/// milliseconds when a container is put into its control groups, but not right after another one was put there. Without
/// the rest, one start would make the next one look faster.
const REST: Duration = Duration::from_millis(100);

/// Times `thermae run --json` of a print, from its start until its outcome can be read. Each run is a new process with
/// an embedded fleet of its own. The first run is not timed.
///
/// # Errors
/// The program can't be started, or gave a wrong answer.
pub fn measure(program: &Path, python: Option<&PathBuf>, samples: u32) -> Result<Row> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("print.py");
    std::fs::write(&file, "print(1+1)\n")?;
    let mut times = Histogram::<u64>::new(3)?;
    for n in 0..=samples {
        let mut command = Command::new(program);
        command.args(["run", "--json"]).arg(&file).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        if let Some(python) = python {
            command.arg("--python").arg(python);
        }
        std::thread::sleep(REST);
        let begun = Instant::now();
        let mut process = command.spawn().with_context(|| format!("start {}", program.display()))?;
        let mut line = String::new();
        if let Some(out) = process.stdout.take() {
            BufReader::new(out).read_line(&mut line)?;
        }
        let took = begun.elapsed();
        let status = process.wait()?;
        let outcome: Value = serde_json::from_str(&line).unwrap_or_default();
        ensure!(status.success() && outcome["stdout"] == "2\n", "{} run: {status}, {line}", program.display());
        if n > 0 {
            times.record(took.as_nanos() as u64)?;
        }
    }
    Ok(Row::new("start", "embedded", &times, None))
}
