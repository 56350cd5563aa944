//! A walk through a directory: sorted by name, each directory before what is in it. Programs' own files
//! are passed over.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, Stat, openat, statat};
use rustix::io::Errno;

use super::failure::on;
use super::paths;
use crate::files;
use crate::frames::{ByteString, Failure, FileKind};

/// Deepest level of directories that a walk enters. Each level takes a descriptor.
pub(super) const DEEPEST: u32 = 256;

/// Most bytes of a result, roughly: it has to fit into one message.
const MOST_BYTES: usize = 4 << 20;

/// The bounds on a result.
pub(super) struct Room {
    entries: u32,
    bytes: usize,
}

impl Room {
    pub(super) fn new(most: u32) -> Self {
        Self { entries: most, bytes: MOST_BYTES }
    }

    /// Whether one more entry with that many bytes fits.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        // Control characters take six bytes in JSON, and every entry has some other fields.
        let bytes = bytes * 6 + 128;
        let fits = self.entries > 0 && self.bytes >= bytes;
        if fits {
            self.entries -= 1;
            self.bytes -= bytes;
        }
        fits
    }
}

/// The walk.
pub(super) struct Walk {
    levels: Vec<Level>,
    depth: usize,
    /// The directory to be entered next, if it can be.
    entered: Option<(Vec<u8>, CString)>,
    /// Number of directories that could not be read.
    pub(super) skipped: u64,
}

struct Level {
    dir: OwnedFd,
    path: Vec<u8>,
    names: std::vec::IntoIter<CString>,
}

/// What the walk has come to.
pub(super) struct Place {
    /// Its path, relative to where the walk began.
    pub(super) path: Vec<u8>,
    pub(super) name: CString,
    pub(super) stat: Stat,
}

impl Walk {
    /// Begins a walk at that directory. It goes down this many levels.
    ///
    /// # Errors
    /// If the directory can't be read.
    pub(super) fn new(path: &ByteString, depth: u32) -> Result<Self, Failure> {
        let dir = paths::directory(path)?;
        let level = Level::new(dir, Vec::new()).map_err(on(path.clone()))?;
        Ok(Self { levels: vec![level], depth: depth.clamp(1, DEEPEST) as usize, entered: None, skipped: 0 })
    }

    /// Goes on to the next entry. It is in [`Walk::dir`].
    pub(super) fn next(&mut self) -> Option<Place> {
        if let Some((path, name)) = self.entered.take() {
            self.enter(path, &name);
        }
        loop {
            let level = self.levels.last_mut()?;
            let Some(name) = level.names.next() else {
                self.levels.pop();
                continue;
            };
            // An entry that is gone meanwhile is not there.
            let Ok(stat) = statat(&level.dir, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if files::is_programs_own(name.to_bytes(), &stat) {
                continue;
            }
            let path = if level.path.is_empty() {
                name.to_bytes().to_vec()
            } else {
                [&level.path, &b"/"[..], name.to_bytes()].concat()
            };
            if paths::kind(stat.st_mode) == FileKind::Directory && self.levels.len() < self.depth {
                self.entered = Some((path.clone(), name.clone()));
            }
            return Some(Place { path, name, stat });
        }
    }

    /// The directory of the last entry.
    pub(super) fn dir(&self) -> Option<BorrowedFd<'_>> {
        self.levels.last().map(|level| level.dir.as_fd())
    }

    fn enter(&mut self, path: Vec<u8>, name: &CString) {
        let Some(level) = self.levels.last() else { return };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match openat(&level.dir, name, flags, Mode::empty()) {
            Ok(dir) if paths::is_proc(&dir) == Ok(true) => {}
            Ok(dir) => match Level::new(dir, path) {
                Ok(level) => self.levels.push(level),
                Err(_) => self.skipped += 1,
            },
            Err(Errno::NOENT) => {}
            Err(_) => self.skipped += 1,
        }
    }
}

impl Level {
    fn new(dir: OwnedFd, path: Vec<u8>) -> rustix::io::Result<Self> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&dir)? {
            let entry = entry?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                names.push(entry.file_name().to_owned());
            }
        }
        names.sort_unstable();
        Ok(Self { dir, path, names: names.into_iter() })
    }
}
