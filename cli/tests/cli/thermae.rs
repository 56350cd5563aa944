//! Calls the program.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A folder in which the program is called.
pub(crate) struct Thermae {
    pub(crate) dir: TempDir,
}

/// The result of a call.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Exit status; -1 if a signal ended the program.
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Thermae {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A folder with one file.
    pub(crate) fn with(name: &str, text: &str) -> Self {
        let this = Self::new();
        this.file(name, text);
        this
    }

    pub(crate) fn file(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap()
    }

    /// A call of the program, without the developer's own `THERMAE_` variables.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thermae"));
        command.args(args).current_dir(self.path()).stdin(Stdio::null());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("THERMAE_")) {
            command.env_remove(name);
        }
        command.env("XDG_STATE_HOME", self.path().join(".state"));
        command
    }

    pub(crate) fn call(&self, args: &[&str]) -> Answer {
        self.command(args).output().unwrap().into()
    }

    /// Calls the program on a terminal, as a person would. Both streams are in `stdout`.
    pub(crate) fn call_on_terminal(&self, args: &[&str]) -> Answer {
        let spawn = "import pty, sys, os; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
        let inner = self.command(args);
        let mut command = Command::new("python3");
        command.args(["-c", spawn]).arg(inner.get_program()).args(inner.get_args()).current_dir(self.path());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.stdin(Stdio::null()).output().unwrap().into()
    }

    /// Calls the program on a terminal, as a person who types a text when the terminal shows another one. There is a file
    /// `typed` from the first text on. Both streams are in `stdout`.
    pub(crate) fn call_and_type(&self, args: &[&str], typed: &[(&str, &str)]) -> Answer {
        let spawn = "
import os, pty, sys
typed = [pair.split('\x1f') for pair in sys.argv[1].split('\x1e')]
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
shown, seen = b'', 0
def more():
    global shown
    try:
        piece = os.read(terminal, 4096)
    except OSError:
        piece = b''
    shown += piece
    return piece
for text, line in typed:
    while (at := shown.find(text.encode(), seen)) < 0 and more():
        pass
    seen = max(at, 0) + len(text)
    if at >= 0:
        os.write(terminal, line.encode())
        open('typed', 'w').close()
while more():
    pass
sys.stdout.buffer.write(shown)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";
        let pairs: Vec<_> = typed.iter().map(|(text, line)| format!("{text}\u{1f}{line}")).collect();
        let inner = self.command(args);
        let mut command = Command::new("python3");
        command.args(["-c", spawn, &pairs.join("\u{1e}")]).arg(inner.get_program()).args(inner.get_args());
        command.current_dir(self.path());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.stdin(Stdio::null()).output().unwrap().into()
    }

    pub(crate) fn call_with_input(&self, args: &[&str], input: &str) -> Answer {
        let mut command = self.command(args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap().into()
    }
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Answer {
    /// Status and both streams, for snapshots.
    pub(crate) fn show(&self) -> String {
        format!("status {}\n--- stdout\n{}--- stderr\n{}", self.status, self.stdout, self.stderr)
    }
}
