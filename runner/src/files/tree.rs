//! Reads everything that a session has in `/workspace` and `/session`, in small steps, for a checkpoint.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, readlinkat, statat};
use rustix::io::Errno;

use super::{SESSION, WORKSPACE, directory, is_programs_own};
use crate::frames::{Checkpoint, Failure, Omissions, Part, PartKind, Why};

/// The directories, as the storage and as the job's code know them.
const ROOTS: [(&str, &str); 2] = [(WORKSPACE, "/workspace"), (SESSION, "/session")];

/// The permission bits that are kept. A program that had other bits set gives nobody its rights afterwards.
pub(super) const PERMISSIONS: u32 = 0o777;

/// The result of one step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Growth<'a> {
    /// The next part.
    Part(Part),
    /// More bytes of the part.
    Data(&'a [u8]),
    /// Nothing to send yet.
    Worked,
    /// There is no more.
    Done,
}

/// A walk through the files of one session. Nothing is followed, and a name that a live process swaps meanwhile leads
/// nowhere else.
pub(crate) struct Tree {
    storage: OwnedFd,
    device: u64,
    parts_left: u32,
    bytes_left: u64,
    roots_done: usize,
    levels: Vec<Level>,
    reading: Option<Reading>,
    omissions: Omissions,
    failed: Option<Failure>,
}

/// A directory, and its names that were not looked at.
struct Level {
    dir: OwnedFd,
    path: Vec<u8>,
    names: VecDeque<Vec<u8>>,
}

/// A file that is being read, and how many of its bytes may still be sent.
struct Reading {
    file: File,
    left: u64,
}

impl Tree {
    /// Begins a walk.
    ///
    /// # Errors
    /// If the storage can't be read.
    pub(crate) fn new(storage: OwnedFd, limits: &Checkpoint) -> rustix::io::Result<Self> {
        let device = fstat(&storage)?.st_dev;
        Ok(Self {
            storage,
            device,
            parts_left: limits.parts,
            bytes_left: limits.bytes,
            roots_done: 0,
            levels: Vec::new(),
            reading: None,
            omissions: Omissions::default(),
            failed: None,
        })
    }

    /// Ends the walk. Returns what was left out, or why the walk is not complete.
    pub(crate) fn end(self) -> Result<Omissions, Failure> {
        match self.failed {
            Some(failed) => Err(failed),
            None => Ok(self.omissions),
        }
    }

    /// Ends the walk early: it is not complete.
    pub(crate) fn cut(&mut self) {
        self.fail("ECANCELED", b"/session".to_vec(), "it was cancelled");
    }

    fn fail<'a>(&mut self, errno: &str, path: Vec<u8>, message: &str) -> Growth<'a> {
        self.levels.clear();
        self.reading = None;
        self.roots_done = ROOTS.len();
        self.failed.get_or_insert_with(|| Failure { errno: errno.into(), path: path.into(), message: message.into() });
        Growth::Done
    }

    fn omit<'a>(&mut self, path: Vec<u8>, why: Why) -> Growth<'a> {
        self.omissions.add(path, why, None);
        Growth::Worked
    }

    /// Takes one step: reads at most one `chunk`, lists one directory or looks at one name.
    pub(crate) fn step<'a>(&mut self, chunk: &'a mut [u8]) -> Growth<'a> {
        if let Some(reading) = self.reading.take() {
            return self.read(reading, chunk);
        }
        match self.levels.last_mut().map(|level| level.names.pop_front()) {
            Some(Some(name)) => self.look(&name),
            Some(None) => {
                self.levels.pop();
                Growth::Worked
            }
            None => {
                let Some((at, path)) = ROOTS.get(self.roots_done) else { return Growth::Done };
                self.roots_done += 1;
                match directory(self.storage.as_fd(), *at) {
                    Ok(dir) => self.enter(dir, (*path).into()),
                    Err(_) => self.omit((*path).into(), Why::Unreadable),
                }
            }
        }
    }

    /// Lists a directory. The next steps look at its names.
    fn enter<'a>(&mut self, dir: OwnedFd, path: Vec<u8>) -> Growth<'a> {
        let Ok(entries) = Dir::read_from(&dir) else { return self.omit(path, Why::Unreadable) };
        let mut names = Vec::new();
        for entry in entries.map_while(Result::ok) {
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let Some(left) = self.parts_left.checked_sub(1) else {
                return self.fail("EDQUOT", path, "there are more files, directories and links than allowed");
            };
            self.parts_left = left;
            names.push(name.to_vec());
        }
        names.sort_unstable();
        self.levels.push(Level { dir, path, names: names.into() });
        Growth::Worked
    }

    fn look<'a>(&mut self, name: &[u8]) -> Growth<'a> {
        let depth = self.levels.len();
        let Some(level) = self.levels.last() else { return Growth::Worked };
        let path = [level.path.as_slice(), b"/", name].concat();
        let stat = match statat(&level.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            // It was removed after its directory was listed.
            Err(Errno::NOENT) => return Growth::Worked,
            Err(_) => return self.omit(path, Why::Unreadable),
        };
        if is_programs_own(name, &stat) {
            self.parts_left += 1;
            return Growth::Worked;
        }
        let mode = stat.st_mode & PERMISSIONS;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory if depth >= Checkpoint::DEPTH => {
                self.fail("ELOOP", path, "its directories are too deep")
            }
            FileType::Directory => match directory(level.dir.as_fd(), name) {
                Ok(dir) => {
                    let part = Part { path: path.clone().into(), kind: PartKind::Directory { mode } };
                    match self.enter(dir, path) {
                        Growth::Done => Growth::Done,
                        _ => Growth::Part(part),
                    }
                }
                Err(Errno::NOENT) => Growth::Worked,
                Err(_) => self.omit(path, Why::Unreadable),
            },
            FileType::RegularFile => self.open(path, name),
            FileType::Symlink => match readlinkat(&level.dir, name, Vec::new()) {
                Ok(target) => {
                    let kind = PartKind::Link { target: target.into_bytes().into() };
                    Growth::Part(Part { path: path.into(), kind })
                }
                Err(Errno::NOENT) => Growth::Worked,
                Err(_) => self.omit(path, Why::Unreadable),
            },
            _ => self.omit(path, Why::Special),
        }
    }

    fn open<'a>(&mut self, path: Vec<u8>, name: &[u8]) -> Growth<'a> {
        let Some(level) = self.levels.last() else { return Growth::Worked };
        // If the name no longer stands for a regular file, opening it must neither wait nor follow a link.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = openat(&level.dir, name, flags, Mode::empty()).and_then(|file| Ok((fstat(&file)?, file)));
        let (stat, file) = match opened {
            Ok(found) => found,
            Err(Errno::NOENT) => return Growth::Worked,
            Err(_) => return self.omit(path, Why::Unreadable),
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_dev != self.device {
            return self.omit(path, Why::Special);
        }
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let Some(left) = self.bytes_left.checked_sub(size) else {
            return self.fail("EDQUOT", path, "with it, there are more bytes than allowed");
        };
        self.bytes_left = left;
        self.reading = (size > 0).then(|| Reading { file: file.into(), left: size });
        Growth::Part(Part { path: path.into(), kind: PartKind::File { mode: stat.st_mode & PERMISSIONS } })
    }

    fn read<'a>(&mut self, mut reading: Reading, chunk: &'a mut [u8]) -> Growth<'a> {
        let want = chunk.len().min(usize::try_from(reading.left).unwrap_or(usize::MAX));
        match reading.file.read(&mut chunk[..want]) {
            // A file that shrinks meanwhile ends where it ends.
            Ok(0) => Growth::Worked,
            Ok(got) => {
                reading.left -= got as u64;
                self.reading = (reading.left > 0).then_some(reading);
                Growth::Data(&chunk[..got])
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {
                self.reading = Some(reading);
                Growth::Worked
            }
            Err(e) => self.fail("EIO", Vec::new(), &format!("a file can't be read to its end: {e}")),
        }
    }
}
