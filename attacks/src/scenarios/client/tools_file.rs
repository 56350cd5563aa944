//! A tools file beside a program.

use anyhow::Result;

use crate::evidence::Evidence;
use crate::thermae::Thermae;

pub(super) const SHEET: &str = r#"
tries = "puts a `thermae.toml` beside a program and beside a batch's jobs: as a file, as a link, under a trusted path with other content, and with trusted content under another path"
wins = "commands on the user's machine"
guard = "such a file is used only if `--tools-file` names it, or if its path and its content are trusted"
control = {}
held = { beside = false, linked = false, batch = false, changed = false, moved = false }
open = { beside = true, linked = true, batch = true }
"#;

/// Notes whether a run executed the file's command. With the guard off, the user names the file.
pub(super) fn attempt(lifted: bool) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    let hostile = "[tools.look]\ncommand = \"touch executed; echo 1\"\n";
    let more = if lifted { &["--tools-file", "thermae.toml"][..] } else { &[] };
    for name in ["beside", "linked", "batch"] {
        let thermae = Thermae::new()?;
        thermae.file("main.py", "await look()")?;
        thermae.file("jobs.jsonl", "{\"id\": \"a\", \"code\": \"await look()\"}\n")?;
        if name == "linked" {
            thermae.file("elsewhere.toml", hostile)?;
            std::os::unix::fs::symlink("elsewhere.toml", thermae.path().join("thermae.toml"))?;
        } else {
            thermae.file("thermae.toml", hostile)?;
        }
        let words =
            if name == "batch" { &["batch", "jobs.jsonl", "--out", "out.jsonl"][..] } else { &["run", "main.py"] };
        thermae.call(&[words, more].concat())?;
        evidence.note(name, thermae.path().join("executed").exists());
    }
    if !lifted {
        let thermae = Thermae::new()?;
        thermae.file("a/main.py", "await look()")?;
        thermae.file("a/thermae.toml", "[tools.look]\ncommand = \"echo 1\"\n")?;
        thermae.call(&["trust", "a/thermae.toml"])?;
        thermae.file("a/thermae.toml", hostile)?;
        thermae.call(&["run", "a/main.py"])?;
        evidence.note("changed", !thermae.listed("").iter().all(|file| !file.ends_with("executed")));
        // Put the trusted content into another folder, where its command does something else.
        let thermae = Thermae::new()?;
        thermae.file("a/main.py", "await look()")?;
        thermae.file("a/thermae.toml", "[tools.look]\ncommand = \"sh ./tool.sh\"\n")?;
        thermae.call(&["trust", "a/thermae.toml"])?;
        thermae.file("b/main.py", "await look()")?;
        thermae.file("b/thermae.toml", "[tools.look]\ncommand = \"sh ./tool.sh\"\n")?;
        thermae.file("b/tool.sh", "touch executed")?;
        thermae.call(&["run", "b/main.py"])?;
        evidence.note("moved", thermae.path().join("b/executed").exists());
    }
    Ok(evidence)
}
