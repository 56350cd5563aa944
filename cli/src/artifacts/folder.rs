//! Writes files below one folder and nowhere else, whatever their paths are and whatever links are in the folder.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, fstat, linkat, mkdirat, openat, renameat_with, unlinkat};
use rustix::io::Errno;

/// The folder that artifacts are written to.
pub(super) struct Folder {
    root: OwnedFd,
    /// Device and inode of folders that programs are run from.
    run_from: Vec<(u64, u64)>,
}

impl Folder {
    /// Opens the folder, and creates it with its parents if it is missing.
    pub(super) fn open(path: &Path, run_from: &[PathBuf]) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        // The user named this path, so it may be a link.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let known = run_from.iter().filter_map(|dir| std::fs::metadata(dir).ok());
        let run_from = known.map(|meta| (meta.dev(), meta.ino())).collect();
        Ok(Self { root: openat(CWD, path, flags, Mode::empty())?, run_from })
    }

    /// Whether a file with this path would be in a folder that programs are run from, or below one.
    pub(super) fn runs(&self, path: &[u8]) -> bool {
        let is = |dir: &OwnedFd| fstat(dir).is_ok_and(|stat| self.run_from.contains(&(stat.st_dev, stat.st_ino)));
        let Ok(mut dir) = self.root.try_clone() else { return true };
        let mut parts = path.split(|b| *b == b'/');
        loop {
            if is(&dir) {
                return true;
            }
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match parts.next().map(|part| openat(&dir, part, flags, Mode::empty())) {
                Some(Ok(next)) => dir = next,
                _ => return false,
            }
        }
    }

    /// Writes a whole file under a name that doesn't exist yet. Succeeds, too, if a file with that name has the same
    /// content. Creates the folders on the way, of which none may be a link.
    pub(super) fn write(&self, path: &[u8], bytes: &[u8]) -> io::Result<()> {
        let mut parts: Vec<&[u8]> = path.split(|b| *b == b'/').collect();
        let plain = |part: &&[u8]| !matches!(*part, b"" | b"." | b"..") && !part.contains(&0);
        let Some(name) = parts.iter().all(plain).then(|| parts.pop()).flatten() else {
            return Err(io::Error::other("the fleet gave a path that leads out of the folder"));
        };
        let mut dir = self.root.try_clone()?;
        for part in parts {
            match mkdirat(&dir, part, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(e) => return Err(e.into()),
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            dir = openat(&dir, part, flags, Mode::empty())?;
        }
        let aside = format!(".thermae-{}", uuid::Uuid::new_v4().simple());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&dir, &aside, flags, Mode::from_raw_mode(0o666))?);
        let named =
            file.write_all(bytes).map(|()| match renameat_with(&dir, &aside, &dir, name, RenameFlags::NOREPLACE) {
                // Not every file system supports this flag. A hard link doesn't replace anything, either.
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                    linkat(&dir, &aside, &dir, name, AtFlags::empty())
                }
                named => named,
            });
        let _ = unlinkat(&dir, &aside, AtFlags::empty());
        match named? {
            Err(Errno::EXIST) if same(&dir, name, bytes) => Ok(()),
            Err(Errno::EXIST) => {
                Err(io::Error::other("something with this name is there already, and it is not replaced"))
            }
            named => Ok(named?),
        }
    }
}

/// Whether there is a regular file with this name and exactly this content.
fn same(dir: &OwnedFd, name: &[u8], bytes: &[u8]) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = openat(dir, name, flags, Mode::empty()).map(File::from) else { return false };
    let like = file.metadata().is_ok_and(|meta| meta.is_file() && meta.len() == bytes.len() as u64);
    let mut there = Vec::new();
    like && file.take(bytes.len() as u64 + 1).read_to_end(&mut there).is_ok() && there == bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_programs_run_from_are_known_however_they_are_reached() {
        let outer = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(outer.path().join("project/out")).unwrap();
        let project = [outer.path().join("project")];
        let runs = |into: &str, path: &[u8]| Folder::open(&outer.path().join(into), &project).unwrap().runs(path);
        assert!(runs("project", b"json.py") && runs("project", b"pkg/x.py") && runs("project/../project", b"json.py"));
        assert!(runs(".", b"project/json.py") && runs(".", b"project/new/json.py"));
        assert!(!runs(".", b"json.py") && !runs("project/out", b"json.py") && !runs(".", b"other/json.py"));
    }

    #[test]
    fn files_land_below_the_folder_or_nowhere() {
        let outer = tempfile::tempdir().unwrap();
        let at = |path: &str| outer.path().join(path);
        std::fs::create_dir(at("elsewhere")).unwrap();
        std::fs::write(at("victim"), "safe").unwrap();
        let folder = Folder::open(&at("made/for/us"), &[]).unwrap();
        folder.write(b"a/b", b"1").unwrap();
        folder.write(b"a/b", b"1").unwrap();
        let error = folder.write(b"a/b", b"22").unwrap_err();
        assert!(error.to_string().contains("not replaced"), "{error}");
        assert_eq!(std::fs::read(at("made/for/us/a/b")).unwrap(), b"1");
        std::os::unix::fs::symlink(at("elsewhere"), at("made/for/us/link")).unwrap();
        std::os::unix::fs::symlink(at("victim"), at("made/for/us/file")).unwrap();
        let bad: [&[u8]; 9] = [b"", b"/x", b"../x", b"a/../../x", b"a//x", b"a/", b"./x", b"a\0b", b"link/x"];
        for path in bad {
            folder.write(path, b"!").expect_err(&String::from_utf8_lossy(path));
        }
        folder.write(b"file", b"ours").unwrap_err();
        folder.write(b"file", b"safe").expect_err("a link is no file, whatever it leads to");
        assert_eq!(std::fs::read(at("victim")).unwrap(), b"safe", "the link is neither replaced nor followed");
        assert!(at("made/for/us/file").is_symlink());
        folder.write(b"odd\n\xff", b"").unwrap();
        assert_eq!(std::fs::read_dir(at("elsewhere")).unwrap().count(), 0);
        // The failed writes have left no temporary file.
        folder.write(b"a", b"a directory stands there").unwrap_err();
        let names = std::fs::read_dir(at("made/for/us")).unwrap().map(|e| e.unwrap().file_name());
        assert!(names.into_iter().all(|name| !name.to_string_lossy().starts_with(".thermae-")));
    }
}
