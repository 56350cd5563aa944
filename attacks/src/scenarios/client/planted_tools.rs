//! A tools file that a job leaves for the next run.

use anyhow::Result;

use crate::evidence::Evidence;
use crate::thermae::Thermae;

pub(super) const SHEET: &str = r#"
tries = "leaves `thermae.toml`, and names that some file systems take for it, as artifacts beside the program, and runs once more"
wins = "commands on the user's machine"
guard = "no artifact may take that name, and a file of that name is not used unless the user trusts it"
control = {}
held = { left = ["plain.txt"], executed = false }
open = { executed = true }
"#;

const CODE: &str = "
import os
tools = '[tools.look]\\ncommand = \"touch executed; echo 1\"\\n'
for name in ['thermae.toml', 'Thermae.toml', 'thermae.toml ', 'thermae.toml.', 'THERMAE.TOML', 'plain.txt']:
    open('artifacts/' + name, 'w').write(tools)
";

pub(super) fn attempt(lifted: bool) -> Result<Evidence> {
    let thermae = Thermae::new()?;
    thermae.file("first.py", CODE)?;
    thermae.file("second.py", "await look()")?;
    thermae.call(&["run", "first.py", "--artifacts", "."])?;
    let mut left = thermae.listed("");
    left.retain(|name| !name.ends_with(".py") && !name.starts_with(".state"));
    if lifted {
        // Without the guards, the user renames the file and trusts it.
        std::fs::rename(thermae.path().join("plain.txt"), thermae.path().join("thermae.toml"))?;
        thermae.call(&["trust"])?;
    }
    thermae.call(&["run", "second.py"])?;
    let mut evidence = Evidence::default();
    evidence.note("left", left);
    evidence.note("executed", thermae.path().join("executed").exists());
    Ok(evidence)
}
