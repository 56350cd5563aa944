//! Input files of runs, and the parts of a checkpoint that a session begins with: kept while the worker sends them, and
//! written into the sandbox before the code starts.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::SystemTime;

use rustix::fs::{
    AtFlags, MemfdFlags, Mode, OFlags, fchmod, fstat, memfd_create, mkdirat, openat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::seen::{Print, Seen, Stamp};
use super::tree::PERMISSIONS;
use super::{ARTIFACTS, SESSION, WORKSPACE, directory};
use crate::frames::{Input, Part, PartKind};

/// Input files of one run. Their bytes are in a memory file of their own, which the kernel frees to the last page, so
/// that the runner's own memory does not grow.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    items: Vec<Item>,
    bytes: Option<File>,
    size: u64,
}

/// Something that is placed, and how many bytes of it have come.
#[derive(Debug)]
struct Item {
    what: What,
    size: u64,
}

#[derive(Debug)]
enum What {
    /// A file that the run brings.
    Input(Input),
    /// A part of the checkpoint that the run's session begins with.
    Part(Part),
}

impl Item {
    fn path(&self) -> String {
        match &self.what {
            What::Input(input) => input.path.clone(),
            What::Part(part) => part.path.to_string(),
        }
    }

    /// Number of bytes that the worker has announced. Of a part, there are as many as come.
    fn announced(&self) -> u64 {
        match &self.what {
            What::Input(input) => input.size,
            What::Part(_) => self.size,
        }
    }
}

impl Inputs {
    /// Whether the run has no input files.
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Sum of the sizes that the worker has announced.
    fn announced(&self) -> u64 {
        self.items.iter().map(Item::announced).fold(0, u64::saturating_add)
    }

    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = match &mut self.bytes {
            Some(file) => file,
            None => self.bytes.insert(memfd_create("inputs", MemfdFlags::CLOEXEC)?.into()),
        };
        file.write_all(bytes)?;
        self.size += bytes.len() as u64;
        if let Some(last) = self.items.last_mut() {
            last.size += bytes.len() as u64;
        }
        Ok(())
    }
}

/// Input files of runs that have not arrived yet. `Err` says why a run's files can't be used.
#[derive(Debug, Default)]
pub(crate) struct Inbox(HashMap<u32, Result<Inputs, String>>);

impl Inbox {
    /// Begins a file of that run.
    pub(crate) fn begin(&mut self, run: u32, input: Input) {
        self.push(run, What::Input(input));
    }

    /// Begins a part of the checkpoint that the session of that run begins with.
    pub(crate) fn begin_part(&mut self, run: u32, part: Part) {
        self.push(run, What::Part(part));
    }

    fn push(&mut self, run: u32, what: What) {
        if let Ok(inputs) = self.0.entry(run).or_insert_with(|| Ok(Inputs::default())) {
            inputs.items.push(Item { what, size: 0 });
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
            size if size == inputs.size && inputs.items.iter().all(|item| item.announced() == item.size) => Ok(inputs),
            size => Err(format!("{} bytes of the run's files came, and not {size}", inputs.size)),
        }
    }

    /// Forgets the files of a run that will not arrive.
    pub(crate) fn forget(&mut self, run: u32) {
        let _ = self.take(run);
    }
}

/// Writes input files and parts into that storage, over what is there. Files among the artifacts are known to `seen`
/// from then on.
///
/// # Errors
/// What could not be written, and why.
pub(crate) fn place(storage: &OwnedFd, inputs: &Inputs, seen: &mut Seen) -> Result<(), (String, io::Error)> {
    let mut placer = Placer { storage, content: inputs.bytes.as_ref(), at: 0, seen, parent: None };
    let mut directories = Vec::new();
    for item in &inputs.items {
        let placed = match &item.what {
            What::Input(input) => {
                let root = if input.session { SESSION } else { WORKSPACE };
                let mode = if input.executable { 0o755 } else { 0o644 };
                placer.file(root, input.path.as_bytes(), mode, item.size)
            }
            What::Part(part) => placer.part(part, item.size, &mut directories),
        };
        placed.map_err(|error| (item.path(), error))?;
    }
    // At last, because nothing could be put into a directory that its owner may not change. What is deeper comes first.
    for (root, path, mode) in directories.into_iter().rev() {
        let set = placer.below(root, path).and_then(|dir| Ok(fchmod(&dir, Mode::from_raw_mode(mode))?));
        set.map_err(|error| (String::from_utf8_lossy(path).into_owned(), error))?;
    }
    Ok(())
}

/// A directory: the root that it is in, its path below that, and its permission bits.
type Made<'a> = (&'static str, &'a [u8], u32);

struct Placer<'a> {
    storage: &'a OwnedFd,
    /// The content of all files, and where that of the next one begins.
    content: Option<&'a File>,
    at: u64,
    seen: &'a mut Seen,
    /// The directory that was used last, with its root and path.
    parent: Option<(&'static str, Vec<u8>, OwnedFd)>,
}

impl Placer<'_> {
    fn part<'p>(&mut self, part: &'p Part, size: u64, directories: &mut Vec<Made<'p>>) -> io::Result<()> {
        let path = part.path.0.as_slice();
        let (root, path) = match (path.strip_prefix(b"/workspace/"), path.strip_prefix(b"/session/")) {
            (Some(path), _) => (WORKSPACE, path),
            (_, Some(path)) => (SESSION, path),
            _ => return Err(io::Error::other("it is in neither /workspace nor /session")),
        };
        match &part.kind {
            PartKind::File { mode } => self.file(root, path, mode & PERMISSIONS, size),
            PartKind::Directory { mode } => {
                directories.push((root, path, mode & PERMISSIONS));
                self.below(root, path).map(drop)
            }
            PartKind::Link { target } => {
                let (name, dir) = self.parent(root, path)?;
                make_way(&dir, name)?;
                Ok(symlinkat(target.0.as_slice(), &dir, name)?)
            }
        }
    }

    /// Opens a directory below a root. What is missing of it is made.
    fn below(&mut self, root: &'static str, path: &[u8]) -> io::Result<OwnedFd> {
        if let Some((_, _, dir)) = self.parent.as_ref().filter(|(r, p, _)| *r == root && p == path) {
            return dir.try_clone();
        }
        let mut dir = directory(self.storage.as_fd(), root)?;
        for name in path.split(|byte| *byte == b'/').filter(|_| !path.is_empty()) {
            check(name)?;
            match mkdirat(&dir, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(e) => return Err(e.into()),
            }
            dir = directory(dir.as_fd(), name)?;
        }
        self.parent = Some((root, path.to_vec(), dir.try_clone()?));
        Ok(dir)
    }

    /// The name of what that path stands for, and the directory that the name is in.
    fn parent<'p>(&mut self, root: &'static str, path: &'p [u8]) -> io::Result<(&'p [u8], OwnedFd)> {
        let (above, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(0) => return Err(broken()),
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&path[..0], path),
        };
        check(name)?;
        Ok((name, self.below(root, above)?))
    }

    fn file(&mut self, root: &'static str, path: &[u8], mode: u32, size: u64) -> io::Result<()> {
        let (name, dir) = self.parent(root, path)?;
        make_way(&dir, name)?;
        let begun = SystemTime::now();
        // If a job makes the name anew meanwhile, this fails, whatever the job has made.
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut made = File::from(openat(&dir, name, flags, Mode::from_raw_mode(0o600))?);
        let artifact = path.strip_prefix(ARTIFACTS.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"));
        let mut hash = artifact.then(Sha256::new);
        let (mut chunk, end) = ([0; 16 << 10], self.at + size);
        while let Some(from) = self.content.filter(|_| self.at < end) {
            let want = chunk.len().min(usize::try_from(end - self.at).unwrap_or(usize::MAX));
            from.read_exact_at(&mut chunk[..want], self.at)?;
            made.write_all(&chunk[..want])?;
            if let Some(hash) = &mut hash {
                hash.update(&chunk[..want]);
            }
            self.at += want as u64;
        }
        fchmod(&made, Mode::from_raw_mode(mode))?;
        if let Some(hash) = hash {
            let place: &[u8] = if root == SESSION { b"/session/" } else { b"/workspace/" };
            let print = Print::new(Stamp::from(&fstat(&made)?), hash.finalize().into(), begun);
            self.seen.insert([place, path].concat(), print);
        }
        Ok(())
    }
}

/// Only plain components are opened: what one of them stands for is in the directory that is open already.
fn check(name: &[u8]) -> io::Result<()> {
    if matches!(name, b"" | b"." | b"..") || name.contains(&0) { Err(broken()) } else { Ok(()) }
}

fn broken() -> io::Error {
    io::Error::other("not a relative path of plain components")
}

/// Removes what a new file or link replaces: anything but a directory that has something in it.
fn make_way(dir: &OwnedFd, name: &[u8]) -> io::Result<()> {
    let removed = match unlinkat(dir, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => unlinkat(dir, name, AtFlags::REMOVEDIR),
        removed => removed,
    };
    match removed {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn inputs(files: &[(&str, &[u8])]) -> Inputs {
        let mut inputs = Inputs::default();
        for (path, bytes) in files {
            let (executable, size) = (path.ends_with(".sh"), bytes.len() as u64);
            let input = Input { path: (*path).into(), session: false, executable, size };
            inputs.items.push(Item { what: What::Input(input), size: 0 });
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
