//! What may be shown: folders and files. A socket is as alive behind a read-only mount as before it, and so are a pipe and a device.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Looks through a folder, without following links.
///
/// # Errors
/// [`Error::Shown`], with the first thing that is neither folder, file nor link.
pub fn only_files(root: &Path) -> Result<()> {
    // The root itself may be a link: what it leads to is what is shown.
    let Ok(root) = fs::canonicalize(root) else { return Ok(()) };
    let refuse = |path: PathBuf| Error::Shown {
        path: path.display().to_string(),
        reason:
            "it is neither a file nor a folder: jobs could speak with whoever is behind it. Move it away, or show less"
                .into(),
    };
    let kind = |path: &Path| fs::symlink_metadata(path).map(|meta| meta.file_type());
    let Ok(first) = kind(&root) else { return Ok(()) };
    if !first.is_dir() {
        return if first.is_file() { Ok(()) } else { Err(refuse(root)) };
    }
    let mut left = vec![root];
    while let Some(folder) = left.pop() {
        // What can't be read here can't be read by a job either.
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => left.push(entry.path()),
                Ok(kind) if kind.is_file() || kind.is_symlink() => {}
                Ok(_) => return Err(refuse(entry.path())),
                Err(_) => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn sockets_and_pipes_are_found_wherever_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("lib/a/b");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("file"), "").unwrap();
        std::os::unix::fs::symlink("/dev/null", deep.join("link")).unwrap();
        only_files(dir.path()).unwrap();
        let socket = deep.join("engine.sock");
        let _listener = UnixListener::bind(&socket).unwrap();
        for shown in [dir.path(), &socket] {
            let error = only_files(shown).unwrap_err().to_string();
            assert!(error.contains("engine.sock"), "{error}");
        }
        fs::remove_file(&socket).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, deep.join("pipe"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(only_files(dir.path()).is_err());
    }
}
