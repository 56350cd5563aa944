//! Files that a run is to find: gathered from the worker, written before the code starts.

use std::collections::HashMap;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::SystemTime;

use rustix::fs::{AtFlags, Mode, OFlags, fchmod, fstat, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::seen::{Print, Seen, Stamp};
use super::{ARTIFACTS, WORKSPACE, directory};
use crate::frames::Input;

/// A whole file.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) input: Input,
    pub(crate) bytes: Vec<u8>,
}

/// Files of runs that have not come yet.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    runs: HashMap<u32, Result<Vec<File>, String>>,
    bytes: u64,
}

impl Inbox {
    /// A file of that run begins.
    pub(crate) fn begin(&mut self, run: u32, input: Input) {
        if let Ok(files) = self.runs.entry(run).or_insert_with(|| Ok(Vec::new())) {
            files.push(File { input, bytes: Vec::new() });
        }
    }

    /// More of its bytes; no more than `room` are kept over all runs.
    pub(crate) fn fill(&mut self, run: u32, bytes: &[u8], room: u64) {
        let Some(files) = self.runs.get_mut(&run) else { return };
        let Ok(list) = files else { return };
        let Some(file) = list.last_mut() else { return };
        if self.bytes + bytes.len() as u64 > room {
            self.bytes -= sum(list);
            *files = Err(format!("the run's files are larger than the {room} bytes of a sandbox's storage"));
            return;
        }
        if file.bytes.is_empty() {
            file.bytes.reserve_exact(usize::try_from(file.input.size.min(room)).unwrap_or(0).max(bytes.len()));
        }
        file.bytes.extend_from_slice(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// The files of a run that comes now.
    ///
    /// # Errors
    /// Why they are not whole, in words.
    pub(crate) fn take(&mut self, run: u32) -> Result<Vec<File>, String> {
        let files = self.runs.remove(&run).unwrap_or_else(|| Ok(Vec::new()))?;
        self.bytes -= sum(&files);
        match files.iter().find(|f| f.bytes.len() as u64 != f.input.size) {
            Some(torn) => Err(format!("{} bytes of {} came", torn.bytes.len(), torn.input.path)),
            None => Ok(files),
        }
    }

    /// Forgets a run that will not come.
    pub(crate) fn forget(&mut self, run: u32) {
        let _ = self.take(run);
    }
}

fn sum(files: &[File]) -> u64 {
    files.iter().map(|f| f.bytes.len() as u64).sum()
}

/// Writes files below the workspace of that storage, over what is there; those among the artifacts are known from then on.
///
/// # Errors
/// The file that could not be written, and why.
pub(crate) fn place(storage: &OwnedFd, files: &[File], seen: &mut Seen) -> Result<(), (String, io::Error)> {
    files.iter().try_for_each(|file| write(storage, file, seen).map_err(|error| (file.input.path.clone(), error)))
}

fn write(storage: &OwnedFd, file: &File, seen: &mut Seen) -> io::Result<()> {
    let mut parts: Vec<&str> = file.input.path.split('/').collect();
    let name = parts.pop().unwrap_or_default();
    if parts.iter().chain([&name]).any(|part| matches!(*part, "" | "." | "..") || part.contains('\0')) {
        return Err(io::Error::other("not a relative path of plain components"));
    }
    let mut dir = directory(storage.as_fd(), WORKSPACE)?;
    for part in &parts {
        match mkdirat(&dir, *part, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => return Err(e.into()),
        }
        dir = directory(dir.as_fd(), *part)?;
    }
    match unlinkat(&dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(e) => return Err(e.into()),
    }
    let begun = SystemTime::now();
    // A name that somebody makes anew meanwhile is refused, whatever it is.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut made = std::fs::File::from(openat(&dir, name, flags, Mode::from_raw_mode(0o600))?);
    made.write_all(&file.bytes)?;
    fchmod(&made, Mode::from_raw_mode(if file.input.executable { 0o755 } else { 0o644 }))?;
    if parts.first() == Some(&ARTIFACTS) {
        let path = format!("/workspace/{}", file.input.path).into_bytes();
        let sha256 = Sha256::digest(&file.bytes).into();
        seen.insert(path, Print::new(Stamp::from(&fstat(&made)?), sha256, begun));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn file(path: &str, bytes: &[u8]) -> File {
        let input = Input { path: path.into(), executable: false, size: bytes.len() as u64 };
        File { input, bytes: bytes.to_vec() }
    }

    fn storage() -> (tempfile::TempDir, OwnedFd) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("w")).unwrap();
        let fd = std::fs::File::open(dir.path()).unwrap().into();
        (dir, fd)
    }

    #[test]
    fn parents_are_made_and_modes_are_as_asked() {
        let (dir, storage) = storage();
        let mut program = file("a/b/c", b"#!");
        program.input.executable = true;
        let files = [file("x", b"1"), program, file("x", b"22")];
        place(&storage, &files, &mut Seen::default()).unwrap();
        let at = |path: &str| dir.path().join("w").join(path);
        assert_eq!(std::fs::read(at("x")).unwrap(), b"22");
        let mode = |path: &str| std::fs::metadata(at(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("x"), mode("a/b/c")), (0o644, 0o755));
    }

    #[test]
    fn no_path_leads_out() {
        let (dir, storage) = storage();
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), dir.path().join("w/link")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("f"), dir.path().join("w/file")).unwrap();
        for bad in ["", "/x", "../x", "a/../x", "a//x", "./x", "x/", ".", "..", "a\0b", "link/x"] {
            place(&storage, &[file(bad, b"!")], &mut Seen::default()).expect_err(bad);
        }
        place(&storage, &[file("file", b"mine")], &mut Seen::default()).unwrap();
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0, "the link itself was replaced");
        assert_eq!(std::fs::read(dir.path().join("w/file")).unwrap(), b"mine");
    }

    #[test]
    fn an_inbox_keeps_no_more_than_there_is_room_for() {
        let mut inbox = Inbox::default();
        let input = |size| Input { path: "f".into(), executable: false, size };
        inbox.begin(1, input(4));
        inbox.fill(1, b"ab", 6);
        inbox.fill(1, b"cd", 6);
        inbox.begin(2, input(4));
        inbox.fill(2, b"efg", 6);
        inbox.fill(2, b"h", 6);
        assert!(inbox.take(2).unwrap_err().contains("storage"));
        assert_eq!(inbox.take(1).unwrap()[0].bytes, b"abcd");
        inbox.begin(3, input(6));
        inbox.fill(3, b"abc", 6);
        assert!(inbox.take(3).unwrap_err().contains("3 bytes of f"));
        assert_eq!(inbox.bytes, 0);
        assert!(inbox.take(4).unwrap().is_empty());
    }
}
