//! Makes, moves and removes files and directories.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, fstat, futimens, mkdir, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::failure::on;
use super::paths;
use super::transfer::Unnamed;
use crate::frames::{ByteString, Failure, FileKind};

/// Makes a directory, and with `parents` those above it.
pub(super) fn make_dir(path: &ByteString, parents: bool) -> Result<(), Failure> {
    let made = if parents {
        std::fs::create_dir_all(OsStr::from_bytes(&path.0))
    } else {
        mkdir(&*path.0, Mode::from_raw_mode(0o777)).map_err(io::Error::from)
    };
    made.map_err(on(path.clone()))
}

/// Moves a file or directory.
pub(super) fn rename(from: &ByteString, to: &ByteString) -> Result<(), Failure> {
    match renameat(CWD, &*from.0, CWD, &*to.0) {
        Err(Errno::XDEV) => copy_over(from, to),
        // The kernel doesn't tell which of the two it means.
        Err(e) => match statat(CWD, &*from.0, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Err(on(to.clone())(e)),
            Err(e) => Err(on(from.clone())(e)),
        },
        Ok(()) => Ok(()),
    }
}

/// Moves a regular file to another file system: `/workspace` and `/tmp`, for example, are two.
fn copy_over(from: &ByteString, to: &ByteString) -> Result<(), Failure> {
    let stat = statat(CWD, &*from.0, AtFlags::SYMLINK_NOFOLLOW).map_err(on(from.clone()))?;
    if paths::kind(stat.st_mode) != FileKind::File {
        return Err(on(from.clone())(Errno::XDEV));
    }
    let mut old = paths::regular(from, OFlags::RDONLY)?;
    let mut copy = || {
        let mut new = Unnamed::new(&to.0)?;
        new.fill(&mut old)?;
        let stat = fstat(&old)?;
        let time = |seconds, nanos: u64| Timespec { tv_sec: seconds, tv_nsec: nanos as _ };
        let times = Timestamps {
            last_access: time(stat.st_atime, stat.st_atime_nsec as _),
            last_modification: time(stat.st_mtime, stat.st_mtime_nsec as _),
        };
        futimens(new.file(), &times)?;
        new.put(Mode::from_raw_mode(stat.st_mode & 0o7777), true)
    };
    copy().map_err(|e: io::Error| on(to.clone())(e))?;
    unlinkat(CWD, &*from.0, AtFlags::empty()).map_err(on(from.clone()))
}

/// Removes a file, a link or a directory.
pub(super) fn remove(path: &ByteString, recursive: bool) -> Result<(), Failure> {
    let stat = statat(CWD, &*path.0, AtFlags::SYMLINK_NOFOLLOW).map_err(on(path.clone()))?;
    let removed = match paths::kind(stat.st_mode) {
        FileKind::Directory if recursive => std::fs::remove_dir_all(OsStr::from_bytes(&path.0)),
        FileKind::Directory => unlinkat(CWD, &*path.0, AtFlags::REMOVEDIR).map_err(io::Error::from),
        _ => unlinkat(CWD, &*path.0, AtFlags::empty()).map_err(io::Error::from),
    };
    removed.map_err(on(path.clone()))
}
