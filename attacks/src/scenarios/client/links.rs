//! Links in place of artifacts, and in the folder that they are written to.

use std::os::unix::fs::symlink;

use anyhow::Result;

use crate::evidence::Evidence;
use crate::thermae::Thermae;

pub(super) const SHEET: &str = r#"
tries = "leaves links to the user's files, to folders and out of the folder, and files whose names are already links, folders, FIFOs and files in the user's folder"
wins = "a file of the user that is read or overwritten"
guard = "artifacts are read below one descriptor and written below another, name by name, never through a link; existing files are not replaced"
control = {}
held = { victim = "safe", folder = [], kept = "kept", fresh = "new", passed = [] }
open = { victim = "new", folder = ["inner"] }
"#;

const CODE: &str = "
import os
for name in ('file', 'folder/inner', 'there', 'pipe', 'fresh'):
    os.makedirs(os.path.dirname('artifacts/' + name), exist_ok=True)
    open('artifacts/' + name, 'w').write('new')
for name, to in (('passwd', '/etc/passwd'), ('proc', '/proc/self/environ'), ('up', '../../..'), ('root', '/')):
    os.symlink(to, 'artifacts/' + name)
os.makedirs('artifacts/deep')
os.symlink('/etc', 'artifacts/deep/etc')
";

pub(super) fn attempt(lifted: bool) -> Result<Evidence> {
    let thermae = Thermae::new()?;
    thermae.file("main.py", CODE)?;
    thermae.file("victim", "safe")?;
    thermae.file("out/there", "kept")?;
    std::fs::create_dir(thermae.path().join("elsewhere"))?;
    symlink("../victim", thermae.path().join("out/file"))?;
    symlink("../elsewhere", thermae.path().join("out/folder"))?;
    rustix::fs::mkfifoat(rustix::fs::CWD, thermae.path().join("out/pipe"), rustix::fs::Mode::from_raw_mode(0o600))?;
    let into = if lifted { "aside" } else { "out" };
    thermae.call(&["run", "main.py", "--artifacts", into])?;
    if lifted {
        // Copy as a program does that follows links.
        for name in ["file", "folder/inner"] {
            std::fs::copy(thermae.path().join("aside").join(name), thermae.path().join("out").join(name))?;
        }
    }
    let mut evidence = Evidence::default();
    evidence.note("victim", thermae.read("victim"));
    evidence.note("folder", thermae.listed("elsewhere"));
    evidence.note("kept", thermae.read("out/there"));
    evidence.note("fresh", thermae.read("out/fresh"));
    let passed: Vec<_> = thermae
        .listed("out")
        .into_iter()
        .filter(|name| !["file", "folder", "there", "pipe", "fresh"].contains(&name.as_str()))
        .collect();
    evidence.note("passed", passed);
    Ok(evidence)
}
