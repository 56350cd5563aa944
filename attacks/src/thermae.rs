//! Runs the program `thermae`, each time in a new directory.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::fleet::process::program;

/// Longer than a call takes.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs a command on a terminal, and types an answer each time a question is shown.
const TERMINAL: &str = "
import os, pty, sys
ask, answer, *command = map(os.fsencode, sys.argv[1:])
shown = b''
def read(terminal):
    global shown
    data = os.read(terminal, 4096)
    if ask:
        *before, shown = (shown + data).split(ask)
        for _ in before:
            os.write(terminal, answer)
    return data
sys.exit(os.waitstatus_to_exitcode(pty.spawn(command, read)))
";

/// A directory in which `thermae` is called. It is removed on drop.
#[derive(Debug)]
pub struct Thermae {
    dir: TempDir,
}

/// The result of a call.
#[derive(Debug)]
pub struct Answer {
    /// Exit status; -1 if a signal ended the program.
    pub status: i32,
    /// Standard output; on a terminal, both streams.
    pub stdout: String,
    /// Standard error; empty on a terminal.
    pub stderr: String,
}

impl Thermae {
    /// Makes an empty directory.
    ///
    /// # Errors
    /// The directory can't be made.
    pub fn new() -> Result<Self> {
        // The directory must not be below `/tmp`, where every sandbox has storage of its own.
        let root = Path::new("/var/tmp");
        let dir = if root.is_dir() { TempDir::new_in(root) } else { TempDir::new() };
        Ok(Self { dir: dir.context("make a directory")? })
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file, and makes its folders.
    ///
    /// # Errors
    /// It can't be written.
    pub fn file(&self, name: &str, text: &str) -> Result<()> {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().context("no folder")?)?;
        Ok(std::fs::write(path, text)?)
    }

    /// A file's content; empty if there is no such file.
    pub fn read(&self, name: &str) -> String {
        std::fs::read(self.path().join(name)).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default()
    }

    /// All files in the folder `below` and its subfolders, by their paths relative to it.
    pub fn listed(&self, below: &str) -> Vec<String> {
        let (mut all, mut folders) = (Vec::new(), vec![self.path().join(below)]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push(entry.path());
                } else if let Ok(path) = entry.path().strip_prefix(self.path().join(below)) {
                    all.push(path.to_string_lossy().into_owned());
                }
            }
        }
        all.sort();
        all
    }

    /// A call of `thermae` in the directory, without the caller's `THERMAE_` variables.
    ///
    /// # Errors
    /// The program is not built.
    pub fn command(&self, args: &[&str]) -> Result<Command> {
        let mut command = Command::new(program("thermae")?);
        command.args(args);
        Ok(self.prepared(command))
    }

    /// A call of a program of this build in the directory, with a umask that leaves everything to everybody.
    ///
    /// # Errors
    /// The program is not built.
    pub fn with_loose_umask(&self, name: &str, args: &[&str]) -> Result<Command> {
        let mut command = Command::new("sh");
        command.args(["-c", "umask 0; exec \"$@\"", "sh"]).arg(program(name)?).args(args);
        Ok(self.prepared(command))
    }

    /// Calls `thermae`, and waits for its end.
    ///
    /// # Errors
    /// The program is not built, or hangs.
    pub fn call(&self, args: &[&str]) -> Result<Answer> {
        finish(self.command(args)?)
    }

    /// Calls `thermae` on a terminal, as a person would. Both streams are in `stdout`.
    ///
    /// # Errors
    /// The program is not built, or hangs.
    pub fn on_terminal(&self, args: &[&str]) -> Result<Answer> {
        self.on_terminal_typing(args, "", "")
    }

    /// As [`Self::on_terminal`], and types `answer` each time `ask` is shown.
    ///
    /// # Errors
    /// The program is not built, or hangs.
    pub fn on_terminal_typing(&self, args: &[&str], ask: &str, answer: &str) -> Result<Answer> {
        let mut command = Command::new("python3");
        command.args(["-c", TERMINAL, ask, answer]).arg(program("thermae")?).args(args);
        finish(self.prepared(command))
    }

    /// The command in the directory, without the caller's `THERMAE_` variables and without input.
    pub fn prepared(&self, mut command: Command) -> Command {
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("THERMAE_")) {
            command.env_remove(name);
        }
        command.env("XDG_STATE_HOME", self.path().join(".state")).current_dir(self.path()).stdin(Stdio::null());
        command
    }
}

/// Runs a command to its end.
///
/// # Errors
/// The command hangs.
pub fn finish(mut command: Command) -> Result<Answer> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (mut out, mut err) = (child.stdout.take().context("no output")?, child.stderr.take().context("no errors")?);
    let errors = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        err.read_to_end(&mut bytes).map(|_| bytes)
    });
    let output = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        out.read_to_end(&mut bytes).map(|_| bytes)
    });
    let begun = Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if begun.elapsed() > CALL_TIMEOUT => {
                let _ = child.kill();
                let _ = child.wait();
                ensure!(false, "thermae hangs for more than {CALL_TIMEOUT:?}");
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let text = |read: std::thread::Result<std::io::Result<Vec<u8>>>| -> Result<String> {
        let bytes = read.map_err(|_| anyhow::anyhow!("the reader panicked"))??;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    Ok(Answer { status: status.code().unwrap_or(-1), stdout: text(output.join())?, stderr: text(errors.join())? })
}
