//! Files that make a program wait when it opens them, or that never end.

use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::Result;
use rustix::fs::{CWD, Mode, mkfifoat};

use crate::evidence::Evidence;
use crate::thermae::Thermae;

pub(super) const SHEET: &str = r#"
tries = "puts beside a program a tools file that is a FIFO, a folder, a link to itself, a link to `/dev/zero`, a socket, or a terabyte long; and such an audit log"
wins = "a command that hangs, or uses all memory"
guard = "the command line reads only regular files of bounded size, opens them without waiting, and writes an audit log only to such a file"
uncontrolled = "any other program hangs on a FIFO, which no guard of Thermae's can change"
[held]
'*' = true
"#;

fn trap(kind: &str, at: &Path) -> Result<()> {
    match kind {
        "fifo" => mkfifoat(CWD, at, Mode::from_raw_mode(0o600))?,
        "folder" => std::fs::create_dir(at)?,
        "loop" => symlink(at, at)?,
        "zero" => symlink("/dev/zero", at)?,
        "socket" => drop(std::os::unix::net::UnixListener::bind(at)?),
        _ => std::fs::File::create(at)?.set_len(1 << 40)?,
    }
    Ok(())
}

pub(super) fn attempt(_lifted: bool) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    for kind in ["fifo", "folder", "loop", "zero", "socket", "sparse"] {
        let thermae = Thermae::new()?;
        thermae.file("main.py", "print(1)")?;
        trap(kind, &thermae.path().join("thermae.toml"))?;
        // Each call must return: one that hangs is an error.
        thermae.call(&["run", "main.py"])?;
        evidence.note(&format!("tools file: {kind}"), true);
    }
    for kind in ["fifo", "folder", "loop", "socket"] {
        let thermae = Thermae::new()?;
        thermae.file("main.py", "await look()")?;
        trap(kind, &thermae.path().join("calls.jsonl"))?;
        let run = ["run", "main.py", "--tool", "look=true", "--audit", "calls.jsonl"];
        evidence.note(&format!("audit log: {kind}"), thermae.call(&run)?.status != 0);
    }
    Ok(evidence)
}
