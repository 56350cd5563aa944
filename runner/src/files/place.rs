//! Input files of runs: kept while the worker sends them, and written into the sandbox before the code starts.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::SystemTime;

use rustix::fs::{AtFlags, MemfdFlags, Mode, OFlags, fchmod, fstat, memfd_create, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::seen::{Print, Seen, Stamp};
use super::{ARTIFACTS, SESSION, WORKSPACE, directory};
use crate::frames::Input;

/// Input files of one run. Their bytes are in a memory file of their own, which the kernel frees to the last page, so
/// that the runner's own memory does not grow.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    files: Vec<Input>,
    bytes: Option<File>,
    size: u64,
}

impl Inputs {
    /// Whether the run has no input files.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Sum of the sizes that the worker has announced.
    fn announced(&self) -> u64 {
        self.files.iter().map(|file| file.size).fold(0, u64::saturating_add)
    }

    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = match &mut self.bytes {
            Some(file) => file,
            None => self.bytes.insert(memfd_create("inputs", MemfdFlags::CLOEXEC)?.into()),
        };
        file.write_all(bytes)?;
        self.size += bytes.len() as u64;
        Ok(())
    }
}

/// Input files of runs that have not arrived yet. `Err` says why a run's files can't be used.
#[derive(Debug, Default)]
pub(crate) struct Inbox(HashMap<u32, Result<Inputs, String>>);

impl Inbox {
    /// Begins a file of that run.
    pub(crate) fn begin(&mut self, run: u32, input: Input) {
        if let Ok(inputs) = self.0.entry(run).or_insert_with(|| Ok(Inputs::default())) {
            inputs.files.push(input);
        }
    }

    /// Adds bytes to the run's latest file. No more than `room` bytes are kept over all runs.
    pub(crate) fn fill(&mut self, run: u32, bytes: &[u8], room: u64) {
        let kept: u64 = self.0.values().flatten().map(|inputs| inputs.size).sum();
        let Some(slot) = self.0.get_mut(&run) else { return };
        let Ok(inputs) = slot else { return };
        if kept + bytes.len() as u64 > room {
            *slot = Err(format!("the run's files are larger than the {room} bytes of a sandbox's storage"));
        } else if let Err(e) = inputs.add(bytes) {
            *slot = Err(format!("the run's files can't be kept: {e}"));
        }
    }

    /// Takes the files of a run that has arrived.
    ///
    /// # Errors
    /// Why the files are not complete, in words.
    pub(crate) fn take(&mut self, run: u32) -> Result<Inputs, String> {
        let inputs = self.0.remove(&run).unwrap_or_else(|| Ok(Inputs::default()))?;
        match inputs.announced() {
            size if size == inputs.size => Ok(inputs),
            size => Err(format!("{} bytes of the run's files came, and not {size}", inputs.size)),
        }
    }

    /// Forgets the files of a run that will not arrive.
    pub(crate) fn forget(&mut self, run: u32) {
        let _ = self.take(run);
    }
}

/// Writes input files into that storage, over what is there. Those among the artifacts are known to `seen` from then
/// on.
///
/// # Errors
/// The file that could not be written, and why.
pub(crate) fn place(storage: &OwnedFd, inputs: &Inputs, seen: &mut Seen) -> Result<(), (String, io::Error)> {
    let mut at = 0;
    for input in &inputs.files {
        write(storage, input, inputs.bytes.as_ref(), at, seen).map_err(|error| (input.path.clone(), error))?;
        at += input.size;
    }
    Ok(())
}

fn write(storage: &OwnedFd, input: &Input, from: Option<&File>, mut at: u64, seen: &mut Seen) -> io::Result<()> {
    let mut parts: Vec<&str> = input.path.split('/').collect();
    let name = parts.pop().unwrap_or_default();
    if parts.iter().chain([&name]).any(|part| matches!(*part, "" | "." | "..") || part.contains('\0')) {
        return Err(io::Error::other("not a relative path of plain components"));
    }
    let mut dir = directory(storage.as_fd(), if input.session { SESSION } else { WORKSPACE })?;
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
    // If a job makes the name anew meanwhile, this fails, whatever the job has made.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut made = File::from(openat(&dir, name, flags, Mode::from_raw_mode(0o600))?);
    let mut hash = (parts.first() == Some(&ARTIFACTS)).then(Sha256::new);
    let (mut chunk, end) = ([0; 16 << 10], at + input.size);
    while let Some(from) = from.filter(|_| at < end) {
        let want = chunk.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
        from.read_exact_at(&mut chunk[..want], at)?;
        made.write_all(&chunk[..want])?;
        if let Some(hash) = &mut hash {
            hash.update(&chunk[..want]);
        }
        at += want as u64;
    }
    fchmod(&made, Mode::from_raw_mode(if input.executable { 0o755 } else { 0o644 }))?;
    if let Some(hash) = hash {
        let place = if input.session { "/session" } else { "/workspace" };
        let path = format!("{place}/{}", input.path).into_bytes();
        seen.insert(path, Print::new(Stamp::from(&fstat(&made)?), hash.finalize().into(), begun));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn inputs(files: &[(&str, &[u8])]) -> Inputs {
        let mut inputs = Inputs::default();
        for (path, bytes) in files {
            let (executable, size) = (path.ends_with(".sh"), bytes.len() as u64);
            inputs.files.push(Input { path: (*path).into(), session: false, executable, size });
            inputs.add(bytes).unwrap();
        }
        inputs
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
        let files = inputs(&[("x", b"1"), ("a/b/c.sh", b"#!"), ("empty", b""), ("x", b"22")]);
        place(&storage, &files, &mut Seen::default()).unwrap();
        let at = |path: &str| dir.path().join("w").join(path);
        assert_eq!(std::fs::read(at("x")).unwrap(), b"22");
        assert_eq!(std::fs::read(at("a/b/c.sh")).unwrap(), b"#!");
        let mode = |path: &str| std::fs::metadata(at(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("x"), mode("a/b/c.sh")), (0o644, 0o755));
    }

    #[test]
    fn no_path_leads_out() {
        let (dir, storage) = storage();
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), dir.path().join("w/link")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("f"), dir.path().join("w/file")).unwrap();
        for bad in ["", "/x", "../x", "a/../x", "a//x", "./x", "x/", ".", "..", "a\0b", "link/x"] {
            place(&storage, &inputs(&[(bad, b"!")]), &mut Seen::default()).expect_err(bad);
        }
        place(&storage, &inputs(&[("file", b"mine")]), &mut Seen::default()).unwrap();
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0, "the link itself was replaced");
        assert_eq!(std::fs::read(dir.path().join("w/file")).unwrap(), b"mine");
    }

    #[test]
    fn an_inbox_keeps_no_more_than_there_is_room_for() {
        let mut inbox = Inbox::default();
        let input = |size| Input { path: "f".into(), session: false, executable: false, size };
        inbox.begin(1, input(4));
        inbox.fill(1, b"ab", 6);
        inbox.fill(1, b"cd", 6);
        inbox.begin(2, input(4));
        inbox.fill(2, b"efg", 6);
        inbox.fill(2, b"h", 6);
        assert!(inbox.take(2).unwrap_err().contains("storage"));
        assert_eq!(inbox.take(1).unwrap().size, 4);
        inbox.begin(3, input(6));
        inbox.fill(3, b"abc", 6);
        assert!(inbox.take(3).unwrap_err().contains("3 bytes"));
        assert!(inbox.take(4).unwrap().is_empty());
    }
}
