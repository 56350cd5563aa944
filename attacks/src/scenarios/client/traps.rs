//! Files that make whoever opens them wait, or read without end.

use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::Result;
use rustix::fs::{CWD, Mode, mkfifoat};

use crate::evidence::Evidence;
use crate::thermae::Thermae;

pub(super) const SHEET: &str = r#"
tries = "lies beside a program as a tools file that is a FIFO, a folder, a link to itself, to /dev/zero, a socket, or a terabyte"
wins = "a command that hangs, or takes all memory"
guard = "what is read is a regular file of bounded size, opened without waiting"
uncontrolled = "any other program hangs on a FIFO; that is no guard of ours"
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
        // That each call returns is what is asked: a call that hangs is an error.
        thermae.call(&["run", "main.py"])?;
        evidence.note(&format!("tools file: {kind}"), true);
    }
    Ok(evidence)
}
