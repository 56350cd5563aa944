//! Traps that other users of the machine put into the directory for temporary files.

use std::fs::File;
use std::os::unix::fs::symlink;

use anyhow::Result;
use rustix::fs::{CWD, FlockOperation, Mode, flock, mkfifoat};

use crate::evidence::Evidence;
use crate::thermae::{Thermae, finish};

pub(super) const SHEET: &str = r#"
tries = "fills the temporary directory with folders named like the command line's own (whose lock is a FIFO, is held by somebody, is a link to a user's file, or is a folder), with links to the user's folders, and with files"
wins = "a command that hangs at every start; a folder of the user that is deleted"
guard = "the command line's own directories are locked and closed to others, and it looks for old ones without following links and without waiting"
uncontrolled = "no setting turns off the clean-up of old directories"
held = { runs = 3, kept = true, linked = ["lock", "precious"], open_to_others = [] }
"#;

pub(super) fn attempt(_lifted: bool) -> Result<Evidence> {
    let thermae = Thermae::new()?;
    let tmp = thermae.path().join("tmp");
    for folder in
        ["tmp", "precious", "tmp/thermae-fifo", "tmp/thermae-held", "tmp/thermae-linked", "tmp/thermae-folder/lock"]
    {
        std::fs::create_dir_all(thermae.path().join(folder))?;
    }
    thermae.file("precious/precious", "x")?;
    thermae.file("precious/lock", "")?;
    mkfifoat(CWD, tmp.join("thermae-fifo/lock"), Mode::from_raw_mode(0o666))?;
    let held = File::create(tmp.join("thermae-held/lock"))?;
    flock(&held, FlockOperation::LockExclusive)?;
    symlink(thermae.path().join("precious/precious"), tmp.join("thermae-linked/lock"))?;
    symlink(thermae.path().join("precious"), tmp.join("thermae-link"))?;
    symlink(thermae.path().join("precious"), tmp.join("thermae-artifacts-x"))?;
    std::fs::write(tmp.join("thermae-file"), "x")?;
    thermae.file("main.py", "import time; time.sleep(0.5); open('artifacts/f', 'w').write('x')")?;
    let mut runs = 0;
    for variable in ["TMPDIR", "XDG_RUNTIME_DIR", "TMPDIR"] {
        let mut command = thermae.command(&["run", "main.py"])?;
        command.env_remove("XDG_RUNTIME_DIR").env("TMPDIR", &tmp).env(variable, &tmp);
        runs += usize::from(finish(command)?.status == 0);
    }
    // During a run, find directories of the command line's that other users may enter.
    let mut command = thermae.command(&["run", "main.py"])?;
    command.env_remove("XDG_RUNTIME_DIR").env("TMPDIR", &tmp);
    let running = std::thread::spawn(move || finish(command));
    let mut open = Vec::new();
    while !running.is_finished() {
        for entry in std::fs::read_dir(&tmp)?.flatten() {
            use std::os::unix::fs::MetadataExt;
            let name = entry.file_name().to_string_lossy().into_owned();
            let mode =
                std::fs::symlink_metadata(entry.path()).map(|meta| (meta.is_dir(), meta.mode())).unwrap_or_default();
            let ours = ["fifo", "held", "linked", "folder"].iter().all(|trap| name != format!("thermae-{trap}"));
            if ours && mode.0 && mode.1 & 0o077 != 0 {
                open.push(name);
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    open.dedup();
    let mut evidence = Evidence::default();
    evidence.note("runs", runs);
    evidence.note("kept", tmp.join("thermae-held/lock").exists() && tmp.join("thermae-file").exists());
    evidence.note("linked", thermae.listed("precious"));
    evidence.note("open_to_others", open);
    Ok(evidence)
}
