//! Finds the interpreter to run, and looks behind pyenv's shims. [`super::layout`] then finds what the interpreter
//! needs.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::layout::{Homes, Layout};
use crate::error::{Error, Result};
use crate::outer::Spec;

impl Spec {
    /// Makes a specification for this machine that shows Python's interpreter `python`. `None` means the interpreter of
    /// the active virtualenv, or else `python3` on `PATH`.
    ///
    /// Shims of pyenv and virtualenvs are resolved by reading files, without starting an interpreter.
    ///
    /// # Errors
    /// [`crate::Error::Interpreter`] if there is none, or if it lies in a place that can't be shown.
    pub fn for_python(python: Option<&Path>) -> Result<Self> {
        let Interpreter { python, layout } = find(python)?;
        let commands = commands(&python, &layout);
        let Layout { show, links, hide } = layout;
        let spec = Self { commands, ..Self::showing(&python, &show, &links, &hide) };
        match spec.unshowable() {
            None => Ok(spec),
            Some(hidden) => Err(Error::Interpreter {
                path: python.display().to_string(),
                reason: format!("every sandbox has a {hidden} of its own; put the interpreter into a folder below it"),
            }),
        }
    }
}

/// An interpreter and what it needs.
#[derive(Debug, PartialEq, Eq)]
struct Interpreter {
    /// The path to execute. For a virtualenv it is the environment's own `python`, so that its packages are found.
    python: PathBuf,
    /// What must be shown beyond the system's directories.
    layout: Layout,
}

/// Resolves `asked` (a path, or a name on `PATH`). Without it, finds one in `VIRTUAL_ENV`, or else `python3` on `PATH`.
fn find(asked: Option<&Path>) -> Result<Interpreter> {
    let found = match asked {
        Some(path) if path.components().count() > 1 => path.to_path_buf(),
        Some(name) => on_path(name)?,
        None => match env::var_os("VIRTUAL_ENV").map(|v| PathBuf::from(v).join("bin/python3")) {
            Some(python) if python.exists() => python,
            _ => on_path(Path::new("python3"))?,
        },
    };
    let bad = |reason: String| Error::Interpreter { path: found.display().to_string(), reason };
    let absolute = std::path::absolute(&found).map_err(|e| bad(e.to_string()))?;
    let python = unshim(&absolute).ok_or_else(|| bad("the shim names no installed version".into()))?;
    fs::metadata(&python).map_err(|e| bad(e.to_string()))?;
    let layout = Layout::of(&python, &Homes::of_this_machine()).map_err(|e| bad(e.to_string()))?;
    Ok(Interpreter { python, layout })
}

/// The names by which programs call the interpreter, as far as its own folder does not give them to it: Debian's has no
/// `python`, and beside a `python3.12` there may be the `python3` of another version. (A virtual environment has both.
/// It is found by the path of its interpreter only, so a link from elsewhere would miss it.)
fn commands(python: &Path, layout: &Layout) -> BTreeMap<String, String> {
    let (Some(folder), Ok(real)) = (python.parent(), fs::canonicalize(python)) else { return BTreeMap::new() };
    if folder.parent().is_some_and(|prefix| prefix.join("pyvenv.cfg").is_file()) {
        return BTreeMap::new();
    }
    let given = |path: &Path| layout.shows(path) && fs::canonicalize(path).is_ok_and(|leads_to| leads_to == real);
    let missing = ["python", "python3"].into_iter().filter(|name| !given(&folder.join(name)));
    missing.map(|name| (name.to_owned(), python.to_string_lossy().into_owned())).collect()
}

fn on_path(name: &Path) -> Result<PathBuf> {
    env::var_os("PATH")
        .iter()
        .flat_map(env::split_paths)
        .map(|dir| dir.join(name))
        .find(|p| p.is_file())
        .ok_or_else(|| Error::Interpreter { path: name.display().to_string(), reason: "not found on PATH".into() })
}

/// The program that a pyenv shim would run: `<root>/versions/<version>/bin/<name>`. Any other path is returned as it
/// is. `None` if no wanted version is installed.
fn unshim(path: &Path) -> Option<PathBuf> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return Some(path.to_path_buf()) };
    if dir.file_name().is_none_or(|d| d != "shims") || !dir.with_file_name("versions").is_dir() {
        return Some(path.to_path_buf());
    }
    let root = dir.parent()?;
    let read = |p: PathBuf| fs::read_to_string(p).ok();
    let local = || env::current_dir().ok()?.ancestors().find_map(|d| read(d.join(".python-version")));
    let wanted = env::var("PYENV_VERSION").ok().or_else(local).or_else(|| read(root.join("version")))?;
    let installed = |v: &str| Some(root.join("versions").join(v).join("bin").join(name)).filter(|p| p.is_file());
    // `system` means the next program on PATH that is no shim.
    wanted.split([':', '\n', ' ']).map(str::trim).filter(|v| !v.is_empty()).find_map(|v| match v {
        "system" => {
            env::split_paths(&env::var_os("PATH")?).filter(|d| d != dir).map(|d| d.join(name)).find(|p| p.is_file())
        }
        v => installed(v),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtualenv_shows_itself_and_its_home() {
        let dir = std::env::temp_dir().join(format!("thermae-resolve-{}", std::process::id()));
        let (base, venv) = (dir.join("base"), dir.join("venv"));
        for d in [&base, &venv] {
            fs::create_dir_all(d.join("bin")).unwrap();
        }
        fs::write(base.join("bin/python3.11"), "").unwrap();
        std::os::unix::fs::symlink(base.join("bin/python3.11"), venv.join("bin/python3")).unwrap();
        fs::write(venv.join("pyvenv.cfg"), format!("home = {}\n", base.join("bin").display())).unwrap();
        let got = find(Some(&venv.join("bin/python3"))).unwrap();
        let named = |python: &Path| {
            let Interpreter { python, layout } = find(Some(python)).unwrap();
            commands(&python, &layout).into_keys().collect::<Vec<_>>()
        };
        assert_eq!(named(&venv.join("bin/python3")), [""; 0], "a link from elsewhere would miss the environment");
        assert_eq!(named(&base.join("bin/python3.11")), ["python", "python3"]);
        std::os::unix::fs::symlink("python3.11", base.join("bin/python3")).unwrap();
        assert_eq!(named(&base.join("bin/python3.11")), ["python"]);
        fs::remove_dir_all(&dir).unwrap();
        let layout = Layout { show: vec![venv.clone(), base], ..Layout::default() };
        assert_eq!(got, Interpreter { python: venv.join("bin/python3"), layout });
    }
}
