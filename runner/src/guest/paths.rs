//! How paths are opened.
//!
//! A path is first opened without access (`O_PATH`), which neither waits nor has an effect on a FIFO or a device. Then
//! it is clear what is there, and a regular file is opened anew through this descriptor. The links of `/proc` that lead
//! to what a process holds open are never followed, and this process's own entries there are refused.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{
    CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, Stat, fstat, fstatfs, open, openat2, readlinkat,
};
use rustix::io::Errno;

use super::failure::{because, on};
use crate::frames::{ByteString, Failure, FileKind, FileStat};

/// Opens whatever is at a path, without access to it. `link`: a link itself, if the path ends in one.
pub(super) fn look(path: &[u8], link: bool) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | if link { OFlags::NOFOLLOW } else { OFlags::empty() };
    let found = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS)?;
    if is_proc(&found)? {
        let own = format!("/proc/{}", std::process::id());
        let real = real_path(&found)?;
        if real.strip_prefix(own.as_bytes()).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/")) {
            return Err(Errno::ACCESS);
        }
    }
    Ok(found)
}

/// Opens a regular file with these flags.
pub(super) fn regular(path: &ByteString, flags: OFlags) -> Result<File, Failure> {
    let found = look(&path.0, false).map_err(on(path.clone()))?;
    be_regular(path, &found)?;
    reopen(&found, flags).map_err(on(path.clone()))
}

/// Refuses everything but a regular file.
pub(super) fn be_regular(path: &ByteString, found: &OwnedFd) -> Result<(), Failure> {
    match kind(fstat(found).map_err(on(path.clone()))?.st_mode) {
        FileKind::File => Ok(()),
        FileKind::Directory => Err(on(path.clone())(Errno::ISDIR)),
        other => {
            let what = format!("{other:?}").to_lowercase();
            Err(because(path.clone(), libc::EINVAL, format!("it is a {what}, not a regular file")))
        }
    }
}

/// Opens what was found, now with access.
pub(super) fn reopen(found: &OwnedFd, flags: OFlags) -> rustix::io::Result<File> {
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    open(own_path(found), flags, Mode::empty()).map(File::from)
}

/// Opens a directory to read its entries.
pub(super) fn directory(path: &ByteString) -> Result<OwnedFd, Failure> {
    let found = look(&path.0, false).and_then(|found| reopen(&found, OFlags::RDONLY | OFlags::DIRECTORY));
    found.map(OwnedFd::from).map_err(on(path.clone()))
}

/// The path by which this process reaches one of its own descriptors.
pub(super) fn own_path(fd: &impl AsFd) -> String {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())
}

/// The absolute path of an open file, without links.
pub(super) fn real_path(fd: &impl AsFd) -> rustix::io::Result<Vec<u8>> {
    readlinkat(CWD, own_path(fd), Vec::new()).map(std::ffi::CString::into_bytes)
}

/// Resolves all links of a path.
pub(super) fn real(path: &ByteString) -> Result<ByteString, Failure> {
    look(&path.0, false).and_then(|found| real_path(&found)).map(ByteString).map_err(on(path.clone()))
}

/// Describes what is at a path.
pub(super) fn stat(path: &ByteString, link: bool) -> Result<FileStat, Failure> {
    let describe = || {
        let found = look(&path.0, link)?;
        let mut stat = described(&fstat(&found)?);
        if stat.kind == FileKind::Link {
            stat.target = Some(readlinkat(&found, "", Vec::new())?.into_bytes().into());
        }
        Ok::<_, Errno>(stat)
    };
    describe().map_err(on(path.clone()))
}

/// What `stat` has told.
#[allow(clippy::unnecessary_cast, clippy::cast_lossless, reason = "the types of these fields differ between platforms")]
pub(super) fn described(stat: &Stat) -> FileStat {
    FileStat {
        kind: kind(stat.st_mode),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        permissions: stat.st_mode & 0o7777,
        modified_ns: (stat.st_mtime as i64).saturating_mul(1_000_000_000).saturating_add(stat.st_mtime_nsec as i64),
        target: None,
    }
}

pub(super) fn kind(mode: u32) -> FileKind {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Link,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
        _ => FileKind::Device,
    }
}

/// Whether an open file is one of `/proc`.
pub(super) fn is_proc(fd: impl AsFd) -> rustix::io::Result<bool> {
    Ok(fstatfs(fd)?.f_type == PROC_SUPER_MAGIC)
}
