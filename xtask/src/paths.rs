//! Where things are: the workspace, what it builds, and what the tests keep.

use std::path::{Path, PathBuf};

/// The root of the workspace, whatever folder the command was given in.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Cargo's target directory: `CARGO_TARGET_DIR` if it is set, else `target` in the workspace.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) if !dir.is_empty() => root().join(dir),
        _ => root().join("target"),
    }
}

/// The folder of the release binaries.
pub(crate) fn release() -> PathBuf {
    target().join("release")
}

/// This program's file. A build of the whole workspace may have put a new one in its place while this one runs, which the
/// kernel then calls deleted.
pub(crate) fn this_program() -> Option<PathBuf> {
    let file = std::env::current_exe().ok()?;
    let text = file.to_str()?;
    Some(PathBuf::from(text.strip_suffix(" (deleted)").unwrap_or(text))).filter(|file| file.is_file())
}

/// The folder of one named set of test services. It is the workspace's own, so that all who work in one tree find it.
pub(crate) fn services(set: &str) -> PathBuf {
    root().join("target/services").join(set)
}

/// The folder where images and what they are made of are cached.
pub(crate) fn images() -> PathBuf {
    root().join("target/images")
}

/// Finds a program in `PATH` and in the places where distributions keep servers.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin", "/usr/lib/rabbitmq/bin", "/usr/local/bin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(usual).map(|dir| dir.join(name)).find(|file| file.is_file())
}
