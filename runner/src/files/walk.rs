//! Reads the files that a run has left, in small steps. The runner's loop handles other events between
//! them.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::time::SystemTime;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::seen::{Print, Seen, Stamp};
use super::{ROOTS, Scope, directory};
use crate::frames::{Artifact, ArtifactEnd, ArtifactLimits, Omissions, Why};

/// The result of one step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    /// An artifact begins.
    Begin(Artifact),
    /// More bytes of the artifact.
    Data(&'a [u8]),
    /// The artifact ends.
    End(ArtifactEnd),
    /// Nothing to send yet.
    Worked,
    /// The walk is complete.
    Done,
}

/// A walk through the [`ROOTS`] of one sandbox.
pub(crate) struct Walk {
    storage: OwnedFd,
    device: u64,
    scope: Scope,
    /// How much more may be sent and listed.
    left: ArtifactLimits,
    /// The directory whose names are being looked at (last), and those above it.
    levels: Vec<Level>,
    roots_done: usize,
    reading: Option<Reading>,
    /// Files that were known before this walk and that it has not reached yet.
    before: Seen,
    /// Files that are known after this walk.
    now: Seen,
    omissions: Omissions,
}

struct Level {
    dir: OwnedFd,
    path: Vec<u8>,
    names: VecDeque<Vec<u8>>,
}

/// A file that is being read.
struct Reading {
    file: File,
    path: Vec<u8>,
    stamp: Stamp,
    begun: SystemTime,
    left: u64,
    hash: Option<Sha256>,
    /// The file's earlier fingerprint, while the content is compared with it. `None` while the file is sent.
    compare: Option<Print>,
}

impl Walk {
    /// Begins a walk. It passes over files of `known` that have not changed.
    ///
    /// # Errors
    /// If the storage can't be read.
    pub(crate) fn new(storage: OwnedFd, scope: Scope, limits: ArtifactLimits, known: Seen) -> rustix::io::Result<Self> {
        let device = fstat(&storage)?.st_dev;
        Ok(Self {
            storage,
            device,
            scope,
            left: limits,
            levels: Vec::new(),
            roots_done: 0,
            reading: None,
            before: known,
            now: Seen::default(),
            omissions: Omissions::default(),
        })
    }

    /// Ends the walk. Returns what was left out, and the files that the next walk may pass over if they don't change.
    pub(crate) fn end(self) -> (Omissions, Seen) {
        (self.omissions, self.now)
    }

    /// Ends the walk early. One omission stands for everything that has not been sent.
    pub(crate) fn cut(&mut self) {
        let path = match (self.reading.take(), self.levels.last()) {
            (Some(reading), _) => reading.path,
            (None, Some(level)) => level.path.clone(),
            (None, None) => match ROOTS.get(self.roots_done) {
                Some(root) => root.path.into(),
                None => return,
            },
        };
        self.levels.clear();
        self.roots_done = ROOTS.len();
        self.omissions.add(path, Why::CutShort, None);
    }

    /// Takes one step: reads at most one `chunk`, lists one directory or looks at one name.
    pub(crate) fn step<'a>(&mut self, chunk: &'a mut [u8]) -> Step<'a> {
        if let Some(reading) = self.reading.take() {
            return self.read(reading, chunk);
        }
        match self.levels.last_mut().map(|level| level.names.pop_front()) {
            Some(Some(name)) => self.look(name),
            Some(None) => {
                self.levels.pop();
                Step::Worked
            }
            None => match ROOTS.get(self.roots_done) {
                Some(root) => {
                    self.roots_done += 1;
                    match directory(self.storage.as_fd(), root.at) {
                        Ok(dir) => self.enter(dir, root.path.into()),
                        Err(Errno::NOENT) => {}
                        Err(e) => self.omissions.add(root.path.into(), refusal(e), None),
                    }
                    Step::Worked
                }
                None => Step::Done,
            },
        }
    }

    /// Reads the names in a directory and sorts them. The next steps look at these names.
    fn enter(&mut self, dir: OwnedFd, path: Vec<u8>) {
        let Ok(entries) = Dir::read_from(&dir) else {
            return self.omissions.add(path, Why::Unreadable, None);
        };
        let mut names = Vec::new();
        for entry in entries.map_while(Result::ok) {
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            if self.left.entries == 0 {
                self.omissions.add(path.clone(), Why::TooManyEntries, None);
                break;
            }
            self.left.entries -= 1;
            names.push(name.to_vec());
        }
        names.sort_unstable();
        self.levels.push(Level { dir, path, names: names.into() });
    }

    fn look<'a>(&mut self, name: Vec<u8>) -> Step<'a> {
        let Some(level) = self.levels.last() else { return Step::Worked };
        let path = [level.path.as_slice(), b"/", &name].concat();
        let stat = match statat(&level.dir, &*name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            // The file was removed after its directory was listed.
            Err(Errno::NOENT) => return Step::Worked,
            Err(_) => return self.omit(path, Why::Unreadable, None),
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory if self.levels.len() >= self.left.depth as usize => self.omit(path, Why::TooDeep, None),
            FileType::Directory => {
                match directory(level.dir.as_fd(), &*name) {
                    Ok(dir) => self.enter(dir, path),
                    Err(Errno::NOENT) => {}
                    Err(e) => self.omissions.add(path, refusal(e), None),
                }
                Step::Worked
            }
            FileType::RegularFile => self.open(path, &name, &stat),
            FileType::Symlink => self.omit(path, Why::Link, None),
            _ => self.omit(path, Why::Special, None),
        }
    }

    fn open<'a>(&mut self, path: Vec<u8>, name: &[u8], seen: &Stat) -> Step<'a> {
        let known = self.before.take(&path);
        if let Some(print) = known.as_ref().filter(|print| print.certainly(&Stamp::from(seen))) {
            self.now.insert(path, print.clone());
            return Step::Worked;
        }
        let Some(level) = self.levels.last() else { return Step::Worked };
        let begun = SystemTime::now();
        // If the name no longer stands for a regular file, opening it must neither wait nor follow a link.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = openat(&level.dir, name, flags, Mode::empty()).and_then(|file| Ok((fstat(&file)?, file)));
        let (stat, file) = match opened {
            Ok(found) => found,
            Err(Errno::NOENT) => return Step::Worked,
            Err(e) => return self.omit(path, refusal(e), None),
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_dev != self.device {
            return self.omit(path, Why::Special, None);
        }
        let stamp = Stamp::from(&stat);
        let compare = known.filter(|print| print.perhaps(&stamp));
        let hash = (self.scope == Scope::SessionRun || compare.is_some()).then(Sha256::new);
        let reading = Reading { file: file.into(), path, stamp, begun, left: stamp.size, hash, compare };
        if reading.compare.is_some() {
            self.reading = Some(reading);
            return Step::Worked;
        }
        self.send(reading)
    }

    /// Begins to send a file, if it fits.
    fn send<'a>(&mut self, reading: Reading) -> Step<'a> {
        let size = reading.stamp.size;
        if self.left.files == 0 {
            return self.omit(reading.path, Why::TooMany, Some(size));
        }
        if size > self.left.bytes {
            return self.omit(reading.path, Why::TooLarge, Some(size));
        }
        self.left.files -= 1;
        self.left.bytes -= size;
        let artifact = Artifact { path: reading.path.clone(), size };
        self.reading = Some(reading);
        Step::Begin(artifact)
    }

    fn read<'a>(&mut self, mut reading: Reading, chunk: &'a mut [u8]) -> Step<'a> {
        let want = chunk.len().min(usize::try_from(reading.left).unwrap_or(usize::MAX));
        let got = match reading.file.read(&mut chunk[..want]) {
            Ok(got) => got,
            Err(e) if e.kind() == ErrorKind::Interrupted => {
                self.reading = Some(reading);
                return Step::Worked;
            }
            // If the file can't be read any further, it ends here and is reported as changed.
            Err(_) => 0,
        };
        reading.left -= got as u64;
        if let Some(hash) = &mut reading.hash {
            hash.update(&chunk[..got]);
        }
        if got == 0 {
            return self.finish(reading);
        }
        let comparing = reading.compare.is_some();
        self.reading = Some(reading);
        if comparing { Step::Worked } else { Step::Data(&chunk[..got]) }
    }

    fn finish<'a>(&mut self, mut reading: Reading) -> Step<'a> {
        let after = fstat(&reading.file).ok().map(|stat| Stamp::from(&stat));
        let changed = reading.left > 0 || after != Some(reading.stamp);
        let stamp = after.unwrap_or(reading.stamp);
        let sha256: Option<[u8; 32]> = reading.hash.take().map(|hash| hash.finalize().into());
        if let Some(before) = reading.compare.take() {
            if !changed && sha256 == Some(before.sha256) {
                self.now.insert(reading.path, Print::new(stamp, before.sha256, reading.begun));
                return Step::Worked;
            }
            // The content differs, so the file is sent, from its beginning.
            if std::io::Seek::rewind(&mut reading.file).is_err() {
                return self.omit(reading.path, Why::Unreadable, None);
            }
            let begun = SystemTime::now();
            return self.send(Reading { stamp, left: stamp.size, begun, hash: Some(Sha256::new()), ..reading });
        }
        if let Some(sha256) = sha256 {
            let print = if changed { Print::torn(stamp, sha256) } else { Print::new(stamp, sha256, reading.begun) };
            self.now.insert(reading.path, print);
        }
        Step::End(ArtifactEnd { changed })
    }

    fn omit<'a>(&mut self, path: Vec<u8>, why: Why, size: Option<u64>) -> Step<'a> {
        self.omissions.add(path, why, size);
        Step::Worked
    }
}

/// Why a name is left out, by the error of opening it. After the look at the name, a job may have put something else
/// there.
fn refusal(error: Errno) -> Why {
    match error {
        Errno::LOOP | Errno::NOTDIR => Why::Link,
        Errno::NXIO => Why::Special,
        _ => Why::Unreadable,
    }
}
