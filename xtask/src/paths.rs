//! Where things are: the workspace, its builds, and the files that tests keep.

use std::path::{Path, PathBuf};

/// The root of the workspace.
///
/// It is found at run time, because a clone can be moved, or copied with its `target`, and a program that was built in
/// one clone can be started in another.
pub(crate) fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    root_from(package, std::env::current_dir().ok(), this_program()).unwrap_or_else(|| PathBuf::from("."))
}

/// `cargo run` tells where the package is. Without cargo, the current folder tells, or this program's own file.
fn root_from(package: Option<PathBuf>, current: Option<PathBuf>, program: Option<PathBuf>) -> Option<PathBuf> {
    [package, current, program].iter().flatten().find_map(|start| workspace(start))
}

/// The nearest workspace at or above `start` that has this program in it.
fn workspace(start: &Path) -> Option<PathBuf> {
    let ours = |dir: &&Path| dir.join("Cargo.lock").is_file() && dir.join("xtask/Cargo.toml").is_file();
    start.ancestors().find(ours).map(Path::to_path_buf)
}

/// Cargo's target directory: `CARGO_TARGET_DIR` if it is set, else `target` in the workspace.
pub(crate) fn target() -> PathBuf {
    target_in(&root())
}

/// The target directory of the checkout at `root`.
pub(crate) fn target_in(root: &Path) -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) if !dir.is_empty() => root.join(dir),
        _ => root.join("target"),
    }
}

/// The folder of the release binaries.
pub(crate) fn release() -> PathBuf {
    target().join("release")
}

/// This program's file. A build of the whole workspace may replace the file while this program runs. The kernel then
/// adds " (deleted)" to its name.
pub(crate) fn this_program() -> Option<PathBuf> {
    let file = std::env::current_exe().ok()?;
    let text = file.to_str()?;
    Some(PathBuf::from(text.strip_suffix(" (deleted)").unwrap_or(text))).filter(|file| file.is_file())
}

/// The folder of a set of test services. It is in the workspace, so that everyone who works in the same tree finds it.
pub(crate) fn services(set: &str) -> PathBuf {
    root().join("target/services").join(set)
}

/// The folder where images, and the files that they are made from, are cached.
pub(crate) fn images() -> PathBuf {
    root().join("target/images")
}

/// The folder where the wheels' tools are, and what they leave.
pub(crate) fn packaging() -> PathBuf {
    root().join("target/packaging")
}

/// Finds a program in `PATH`, or in a folder where distributions keep servers.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin", "/usr/lib/rabbitmq/bin", "/usr/local/bin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(usual).map(|dir| dir.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_the_one_around_the_package_wherever_it_was_compiled() {
        let moved = std::env::temp_dir().join(format!("thermae-moved-{}", std::process::id()));
        std::fs::create_dir_all(moved.join("xtask/src")).unwrap();
        let inside = Some(moved.join("xtask/src"));
        let before = root_from(inside.clone(), None, None);
        std::fs::write(moved.join("Cargo.lock"), "").unwrap();
        std::fs::write(moved.join("xtask/Cargo.toml"), "").unwrap();
        let after = root_from(inside.clone(), None, None);
        let started_in = root_from(None, inside, Some(root()));
        std::fs::remove_dir_all(&moved).unwrap();
        assert_eq!((before, after, started_in), (None, Some(moved.clone()), Some(moved)));
        assert!(root().join("xtask/src/paths.rs").is_file());
    }
}
