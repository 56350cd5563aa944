//! Checks that what jobs are shown consists of folders, files and links. A read-only mount doesn't stop a job from
//! using a socket, a pipe or a device behind it.

use std::ffi::OsStr;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, openat, statat};
use rustix::io::Errno;

use crate::error::{Error, Result};

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Size of the buffer for directory entries, in bytes.
const BUFFER: usize = 32 << 10;

/// Looks through a file or folder without following links. Folders in `hidden` are skipped, since jobs don't see them.
///
/// # Errors
/// [`Error::Shown`] for the first thing that is neither folder, file nor link, or for a folder that could not be read.
pub fn only_files(root: &Path, hidden: &[String]) -> Result<()> {
    // The root itself may be a link; its target is what is shown.
    let Ok(root) = fs::canonicalize(root) else { return Ok(()) };
    let Ok(kind) = fs::symlink_metadata(&root).map(|meta| meta.file_type()) else { return Ok(()) };
    if kind.is_file() {
        return Ok(());
    }
    if !kind.is_dir() {
        return Err(refuse(&root));
    }
    below(openat(CWD, &root, FOLDER, Mode::empty()), &root, hidden, &mut [MaybeUninit::uninit(); BUFFER])
}

/// Looks through an opened folder. An interpreter's folder may hold 50,000 entries, and the first job waits for this.
/// So folders are opened from their parents, and an entry is looked up only if the file system doesn't tell its kind.
fn below(
    folder: rustix::io::Result<OwnedFd>,
    path: &Path,
    hidden: &[String],
    buffer: &mut [MaybeUninit<u8>],
) -> Result<()> {
    // This code never waits for anything, so it would keep its processor for whole ticks of the kernel's clock, and a
    // container that starts meanwhile would have to wait.
    rustix::thread::sched_yield();
    let folder = match folder {
        Ok(folder) => folder,
        // The folder is gone, or not readable; then a job can't read it either.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::PERM) => return Ok(()),
        Err(error) => return Err(unread(path, error)),
    };
    let mut folders = Vec::new();
    let mut entries = RawDir::new(&folder, buffer);
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(|error| unread(path, error))?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(_) => continue,
            },
            kind => kind,
        };
        match kind {
            FileType::Directory => folders.push(name.to_owned()),
            FileType::RegularFile | FileType::Symlink => {}
            _ => return Err(refuse(&path.join(OsStr::from_bytes(name.to_bytes())))),
        }
    }
    for name in folders {
        let path = path.join(OsStr::from_bytes(name.to_bytes()));
        if !hidden.iter().any(|hidden| path == Path::new(hidden)) {
            below(openat(&folder, &*name, FOLDER, Mode::empty()), &path, hidden, buffer)?;
        }
    }
    Ok(())
}

fn refuse(path: &Path) -> Error {
    let reason =
        "it is neither a file nor a folder: jobs could speak with whoever is behind it. Move it away, or show less";
    Error::Shown { path: path.display().to_string(), reason: reason.into() }
}

fn unread(path: &Path, error: Errno) -> Error {
    Error::Shown { path: path.display().to_string(), reason: format!("it could not be looked through: {error}") }
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
        only_files(dir.path(), &[]).unwrap();
        let socket = deep.join("engine.sock");
        let _listener = UnixListener::bind(&socket).unwrap();
        for shown in [dir.path(), &socket] {
            let error = only_files(shown, &[]).unwrap_err().to_string();
            assert!(error.contains("engine.sock"), "{error}");
        }
        let hidden = fs::canonicalize(dir.path()).unwrap().join("lib/a").display().to_string();
        only_files(dir.path(), &[hidden]).unwrap();
        fs::remove_file(&socket).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, deep.join("pipe"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(only_files(dir.path(), &[]).is_err());
    }
}
