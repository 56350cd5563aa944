//! Directories that each belong to one living process, below a root that everybody shares. Each has a lock file, which
//! its process holds as long as it lives. If nobody holds the lock, the process was killed, and the next process
//! removes the directory.
//!
//! ```text
//! thermae-new-NAME/lock   made, then locked   ── renamed ──▶   thermae-NAME/lock   locked
//! ```
//!
//! Other users of the machine may put anything beside these directories. So nothing here waits, no link is followed,
//! and another user's files are left alone.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FileType, FlockOperation, Mode, OFlags, flock, fstat, openat};

/// Name of the lock file in a directory.
pub(crate) const LOCK: &str = "lock";

/// Prefix of the directories' names.
const PREFIX: &str = "thermae-";

/// What follows [`PREFIX`] in the name of a directory that is not locked yet.
const NEW: &str = "new-";

/// A directory that still has such a name after this time belongs to nobody, because locking and renaming take no time.
const UNNAMED: Duration = Duration::from_secs(60);

/// A directory that this process holds. Dropping it releases the lock, but does not remove the directory.
#[derive(Debug)]
pub(crate) struct LockedDir {
    path: PathBuf,
    _lock: File,
}

impl LockedDir {
    /// Makes a directory below `root` that only this user can enter. Removes the directories that dead processes left
    /// there.
    ///
    /// # Errors
    /// The directory can't be made, or there is one with this name.
    pub(crate) fn make(root: &Path, name: &str) -> io::Result<Self> {
        sweep(root);
        let (new, path) = (root.join(format!("{PREFIX}{NEW}{name}")), root.join(format!("{PREFIX}{name}")));
        if fs::symlink_metadata(&path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{} already exists", path.display())));
        }
        fs::DirBuilder::new().mode(0o700).create(&new)?;
        // It gets its name only when it is locked. Another process that starts at this moment would take it for a dead
        // process's.
        let named = || -> io::Result<File> {
            let lock = File::options().write(true).create_new(true).open(new.join(LOCK))?;
            flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
            fs::rename(&new, &path)?;
            Ok(lock)
        };
        match named() {
            Ok(lock) => Ok(Self { path, _lock: lock }),
            Err(error) => {
                let _ = fs::remove_dir_all(&new);
                Err(error)
            }
        }
    }

    /// Path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the directory and everything in it.
    pub(crate) fn remove(&self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the directories that dead processes left. It leaves alone what belongs to another user, and a directory
/// without a lock file, unless its name says that it was never locked.
fn sweep(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        if abandoned(&entry.path(), name.starts_with(NEW)).unwrap_or(false) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether a directory belongs to this user, and no process holds it any more.
fn abandoned(path: &Path, unnamed: bool) -> io::Result<bool> {
    let dir = openat(CWD, path, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let (stat, me) = (fstat(&dir)?, rustix::process::geteuid().as_raw());
    if stat.st_uid != me {
        return Ok(false);
    }
    if unnamed && File::from(dir.try_clone()?).metadata()?.modified()?.elapsed().unwrap_or_default() < UNNAMED {
        return Ok(false);
    }
    // Without `NONBLOCK`, opening a FIFO of this name would wait.
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock = match openat(&dir, LOCK, flags, Mode::empty()) {
        Ok(lock) => lock,
        Err(rustix::io::Errno::NOENT) => return Ok(unnamed),
        Err(error) => return Err(error.into()),
    };
    let stat = fstat(&lock)?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    Ok(is_file && stat.st_uid == me && flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::SystemTime;

    use super::*;

    fn names(root: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(root).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_nobody_holds_is_removed_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let living = LockedDir::make(root.path(), "living").unwrap();
        drop(LockedDir::make(root.path(), "dead").unwrap());
        fs::create_dir(root.path().join("thermae-foreign")).unwrap();
        fs::write(root.path().join("thermae-file"), "").unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join(LOCK), "").unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), root.path().join("thermae-link")).unwrap();
        let next = LockedDir::make(root.path(), "next").unwrap();
        assert_eq!(
            names(root.path()),
            ["thermae-file", "thermae-foreign", "thermae-link", "thermae-living", "thermae-next"]
        );
        assert!(elsewhere.path().join(LOCK).exists() && living.path().exists());
        next.remove();
        assert!(!next.path().exists());
    }

    #[test]
    fn a_fifo_in_place_of_the_lock_makes_nobody_wait() {
        let root = tempfile::tempdir().unwrap();
        let trap = root.path().join("thermae-trap");
        fs::create_dir(&trap).unwrap();
        rustix::fs::mkfifoat(CWD, trap.join(LOCK), Mode::from_raw_mode(0o666)).unwrap();
        let (done, end) = mpsc::channel();
        let path = root.path().to_owned();
        std::thread::spawn(move || done.send(LockedDir::make(&path, "a").is_ok()));
        assert_eq!(end.recv_timeout(Duration::from_secs(60)), Ok(true));
        assert!(trap.exists(), "it is none of ours");
    }

    #[test]
    fn one_that_was_killed_before_it_was_named_is_removed_after_a_while() {
        let root = tempfile::tempdir().unwrap();
        for (name, lock) in [("thermae-new-empty", false), ("thermae-new-unlocked", true), ("thermae-new-young", true)]
        {
            fs::create_dir(root.path().join(name)).unwrap();
            if lock {
                fs::write(root.path().join(name).join(LOCK), "").unwrap();
            }
            if name != "thermae-new-young" {
                let dir = File::open(root.path().join(name)).unwrap();
                dir.set_modified(SystemTime::now() - UNNAMED * 2).unwrap();
            }
        }
        let held = LockedDir::make(root.path(), "a").unwrap();
        assert_eq!(names(root.path()), ["thermae-a", "thermae-new-young"]);
        drop(held);
    }

    #[test]
    fn nobody_gets_a_directory_that_is_there() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("thermae-a")).unwrap();
        assert_eq!(LockedDir::make(root.path(), "a").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(names(root.path()), ["thermae-a"]);
    }
}
