//! Interpreters in folders that also hold secrets.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use anyhow::{Context, Result};

use crate::evidence::Evidence;
use crate::thermae::{Thermae, finish};

pub(super) const SHEET: &str = r#"
tries = "runs with an interpreter that is a link in `~/bin`, in `~/.local/bin` or in a project, beside keys and sockets, reads the home's keys by every path, and connects to a socket there"
wins = "private keys and cloud credentials; an engine that listens on a socket"
guard = "the sandbox shows only the interpreter's own folder and the links on the way to it, and only files and folders"
control = {}
[held]
'*' = "nothing"
[open]
bin = { contains = "secret" }
"#;

const CODE: &str = "
import os, socket
found = set()
for top, folders, files in os.walk('HOME'):
    for name in files:
        try:
            text = open(os.path.join(top, name), errors='replace').read(100)
            if 'SECRET' in text: found.add('secret')
        except OSError:
            pass
for path in ('HOME/bin/engine.sock', 'HOME/.local/bin/engine.sock', 'HOME/.docker/run.sock', 'HOME/project/bin/engine.sock'):
    try:
        socket.socket(socket.AF_UNIX).connect(path)
        found.add('socket')
    except OSError:
        pass
print(*sorted(found), 'nothing')
";

pub(super) fn attempt(lifted: bool) -> Result<Evidence> {
    let python = std::process::Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output()?;
    let python = std::fs::canonicalize(String::from_utf8(python.stdout)?.trim()).context("no python3")?;
    let mut evidence = Evidence::default();
    for (name, bin) in [("bin", "bin"), ("local", ".local/bin"), ("project", "project/bin")] {
        let thermae = Thermae::new()?;
        let home = thermae.path().join("home");
        for file in [
            ".ssh/id_ed25519",
            ".aws/credentials",
            ".netrc",
            "project/.env",
            ".local/share/keyrings/login",
            "bin/token",
        ] {
            thermae.file(&format!("home/{file}"), "SECRET")?;
        }
        std::fs::create_dir_all(home.join(bin))?;
        symlink(&python, home.join(bin).join("python3"))?;
        let _socket = UnixListener::bind(home.join(bin).join("engine.sock"))?;
        let code = CODE.replace("HOME", &home.to_string_lossy());
        thermae.file("main.py", &code)?;
        let interpreter = home.join(bin).join("python3");
        let mut command = if lifted {
            let mut command = std::process::Command::new(&interpreter);
            command.arg(thermae.path().join("main.py")).stdin(std::process::Stdio::null());
            command
        } else {
            let mut command = thermae.command(&["run", "main.py"])?;
            command.arg("--python").arg(&interpreter);
            command
        };
        command.env("HOME", &home);
        let answer = finish(command)?;
        // A command that refuses to run there reveals nothing, either.
        let shown = if answer.status == 0 { answer.stdout.trim().to_owned() } else { answer.stderr };
        evidence.note(name, shown);
        if lifted {
            break;
        }
    }
    Ok(evidence)
}
