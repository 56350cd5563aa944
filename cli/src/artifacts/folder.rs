//! Writes below one folder and nowhere else, whatever the paths say and whoever has put links there.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;

/// The folder.
pub(super) struct Folder(OwnedFd);

impl Folder {
    /// Opens it; makes it, and its parents, where it is missing.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        // It is the user's own word: this one may be a link.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(openat(CWD, path, flags, Mode::empty())?))
    }

    /// Writes a file whole, in place of what has its name. Directories on the way are made; none of them may be a link.
    pub(super) fn write(&self, path: &[u8], bytes: &[u8]) -> io::Result<()> {
        let mut parts: Vec<&[u8]> = path.split(|b| *b == b'/').collect();
        let plain = |part: &&[u8]| !matches!(*part, b"" | b"." | b"..") && !part.contains(&0);
        let Some(name) = parts.iter().all(plain).then(|| parts.pop()).flatten() else {
            return Err(io::Error::other("the fleet gave a path that leads elsewhere"));
        };
        let mut dir = self.0.try_clone()?;
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
        let written = file.write_all(bytes).and_then(|()| Ok(renameat(&dir, &aside, &dir, name)?));
        if written.is_err() {
            let _ = unlinkat(&dir, &aside, AtFlags::empty());
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_land_below_the_folder_or_nowhere() {
        let outer = tempfile::tempdir().unwrap();
        let at = |path: &str| outer.path().join(path);
        std::fs::create_dir(at("elsewhere")).unwrap();
        std::fs::write(at("victim"), "safe").unwrap();
        let folder = Folder::open(&at("made/for/us")).unwrap();
        folder.write(b"a/b", b"1").unwrap();
        folder.write(b"a/b", b"22").unwrap();
        assert_eq!(std::fs::read(at("made/for/us/a/b")).unwrap(), b"22");
        std::os::unix::fs::symlink(at("elsewhere"), at("made/for/us/link")).unwrap();
        std::os::unix::fs::symlink(at("victim"), at("made/for/us/file")).unwrap();
        let bad: [&[u8]; 9] = [b"", b"/x", b"../x", b"a/../../x", b"a//x", b"a/", b"./x", b"a\0b", b"link/x"];
        for path in bad {
            folder.write(path, b"!").expect_err(&String::from_utf8_lossy(path));
        }
        folder.write(b"file", b"ours").unwrap();
        assert_eq!(std::fs::read(at("victim")).unwrap(), b"safe", "the link was replaced, not followed");
        assert_eq!(std::fs::read(at("made/for/us/file")).unwrap(), b"ours");
        folder.write(b"odd\n\xff", b"").unwrap();
        assert_eq!(std::fs::read_dir(at("elsewhere")).unwrap().count(), 0);
        // Nothing of what failed is left.
        folder.write(b"a", b"a directory stands there").unwrap_err();
        let names = std::fs::read_dir(at("made/for/us")).unwrap().map(|e| e.unwrap().file_name());
        assert!(names.into_iter().all(|name| !name.to_string_lossy().starts_with(".thermae-")));
    }
}
