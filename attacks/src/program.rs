//! The attacks' files: programs in `programs/<group>/<name>.py` or `.sh`, and the preludes that are put before them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::sheet::Sheet;

/// Beginning of a line that starts another part: `the next job`, `the same job again`, or `the neighbour`.
const PART: &str = "# --- ";

/// What a job's program is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// Python.
    Python,
    /// Bash. An attack that is in Python is then started by a program in bash.
    Bash,
}

/// An attack that is a program.
#[derive(Debug, Clone)]
pub struct Attack {
    /// `<group>/<name>`.
    pub name: String,
    /// What the program is written in.
    pub language: Payload,
    /// The sheet at the top of the program.
    pub sheet: Sheet,
    /// Jobs that run one after the other in one container. A later job may look for what an earlier one left.
    pub jobs: Vec<String>,
    /// A job in another container, which runs during the whole attack.
    pub neighbour: Option<String>,
}

impl Attack {
    /// The attack's group.
    pub fn group(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }
}

/// The folder of the programs in this source tree.
///
/// It is found at run time, because a tree can be moved, or copied with its builds. `cargo` tells where the package is.
/// Without cargo, this program's own file tells, or the current folder.
pub fn folder() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let starts = [package, std::env::current_exe().ok(), std::env::current_dir().ok()];
    starts.iter().flatten().find_map(|start| above(start)).unwrap_or_else(|| PathBuf::from("attacks/programs"))
}

/// The folder of programs in the nearest tree around `start`.
fn above(start: &Path) -> Option<PathBuf> {
    start.ancestors().map(|dir| dir.join("attacks/programs")).find(|dir| dir.join("prelude.py").is_file())
}

/// All attacks in a folder, in the order of their names.
///
/// # Errors
/// A file can't be read or has a wrong form. The error names its path.
pub fn load(folder: &Path) -> Result<Vec<Attack>> {
    let mut attacks = Vec::new();
    for group in entries(folder)?.into_iter().filter(|p| p.is_dir()) {
        for file in entries(&group)? {
            let language = match file.extension().and_then(|extension| extension.to_str()) {
                Some("py") => Payload::Python,
                Some("sh") => Payload::Bash,
                _ => continue,
            };
            let name = file.strip_prefix(folder)?.with_extension("").to_string_lossy().into_owned();
            let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
            attacks.push(parse(name, language, &text).with_context(|| file.display().to_string())?);
        }
    }
    ensure!(!attacks.is_empty(), "no attack in {}", folder.display());
    Ok(attacks)
}

/// The helpers that are put before each program.
#[derive(Debug, Clone)]
pub struct Preludes {
    python: String,
    bash: String,
}

impl Preludes {
    /// Reads them.
    ///
    /// # Errors
    /// A file can't be read.
    pub fn read(folder: &Path) -> Result<Self> {
        let read = |name| {
            let file = folder.join(name);
            fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))
        };
        Ok(Self { python: read("prelude.py")?, bash: read("prelude.sh")? })
    }

    /// The whole program of a job.
    pub fn whole(&self, language: Payload, code: &str) -> String {
        match language {
            Payload::Python => format!("{}\n{code}\nverdict()\n", self.python),
            Payload::Bash => format!("{}\n{code}", self.bash),
        }
    }
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let read = fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))?;
    let mut paths: Vec<_> = read.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
    paths.sort();
    Ok(paths)
}

fn parse(name: String, language: Payload, text: &str) -> Result<Attack> {
    let (begin, end) = match language {
        Payload::Python => ("\"\"\"\n", "\n\"\"\"\n"),
        Payload::Bash => (": <<'SHEET'\n", "\nSHEET\n"),
    };
    let body = text.strip_prefix(begin).with_context(|| format!("does not begin with {begin:?}"))?;
    let (sheet, code) = body.split_once(end).context("the sheet does not end")?;
    let sheet = Sheet::read(sheet).context("the sheet is not the TOML of an attack")?;
    ensure!(sheet.control.is_some() != sheet.uncontrolled.is_some(), "say either `control` or `uncontrolled`");
    ensure!(sheet.control.is_some() != sheet.open.is_empty(), "`open` is what a control finds");
    let (mut jobs, mut neighbour) = (vec![String::new()], None);
    let mut part = &mut jobs[0];
    for line in code.lines() {
        match line.strip_prefix(PART) {
            None => part.extend([line, "\n"]),
            Some("the next job") => {
                jobs.push(String::new());
                part = jobs.last_mut().context("just pushed")?;
            }
            Some("the same job again") => {
                let again = part.clone();
                jobs.push(again);
                part = jobs.last_mut().context("just pushed")?;
            }
            Some("the neighbour") => part = neighbour.insert(String::new()),
            Some(other) => bail!("unknown part {other:?}"),
        }
    }
    Ok(Attack { name, language, sheet, jobs, neighbour })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_a_sheet_and_jobs() {
        let text = "\"\"\"\ntries = 't'\nwins = 'w'\nguard = 'g'\nuncontrolled = 'u'\n[held]\na = 1\n\"\"\"\nx\n# --- the next job\ny\n# --- the neighbour\nz\n";
        let attack = parse("g/n".into(), Payload::Python, text).unwrap();
        assert_eq!((attack.jobs, attack.neighbour), (vec!["x\n".to_owned(), "y\n".to_owned()], Some("z\n".to_owned())));
        let again =
            parse("g/n".into(), Payload::Python, &text.replace("the next job\ny", "the same job again")).unwrap();
        assert_eq!(again.jobs, ["x\n", "x\n"]);
    }

    #[test]
    fn the_programs_are_those_of_the_tree_that_one_is_in() {
        let moved = tempfile::tempdir().unwrap();
        let inside = moved.path().join("target/release");
        fs::create_dir_all(&inside).unwrap();
        let programs = moved.path().join("attacks/programs");
        fs::create_dir_all(&programs).unwrap();
        assert_ne!(above(&inside), Some(programs.clone()), "there is none in it yet");
        fs::write(programs.join("prelude.py"), "").unwrap();
        assert_eq!(above(&inside), Some(programs));
        assert!(folder().join("prelude.py").is_file());
    }

    #[test]
    fn every_file_of_the_folder_is_an_attack_and_there_are_many() {
        let attacks = load(&folder()).unwrap();
        assert!(attacks.len() >= 80, "{}", attacks.len());
    }
}
