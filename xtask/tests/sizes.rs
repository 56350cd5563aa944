//! The length of source files.

use std::path::{Path, PathBuf};

/// Most lines of a file. Whoever opens one should be able to read it whole.
const MOST: usize = 1000;

/// Collects the source files below a folder, other than what a build leaves there.
fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_symlink() || name.starts_with('.') || matches!(&*name, "target" | "node_modules" | "venv") {
            continue;
        }
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|ending| ending == "rs" || ending == "py") {
            into.push(path);
        }
    }
}

#[test]
fn no_source_file_is_long() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    sources(root, &mut files);
    assert!(files.len() > 1000, "{}", files.len());
    let lines = |path: &PathBuf| std::fs::read_to_string(path).unwrap().lines().count();
    let long: Vec<_> = files.iter().map(|path| (path, lines(path))).filter(|(_, lines)| *lines > MOST).collect();
    assert!(long.is_empty(), "more than {MOST} lines: {long:?}");
}
