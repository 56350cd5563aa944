//! The files of programs. A program is a file in the directory where it starts, as with `python main.py`: whatever
//! looks for its own file finds it.
//!
//! A sandbox's first program is `main.py` (or `main.sh`), and a session's next ones are `main_2.py`, `main_3.py` and so
//! on, names that can be imported. Functions live on, and name the file that they are from.
//!
//! An empty program, which only makes its session, has no file.
//!
//! These files are none of the user's: listings, searches and checkpoints leave them out, as long as nobody has changed
//! them.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, Timespec, Timestamps, fstat, futimens, openat, statat, unlinkat,
};
use rustix::io::Errno;

/// The oldest files go when a session's programs take more than this, in bytes.
const MOST_KEPT: u64 = 1 << 20;

/// A file takes at least so many bytes.
const BLOCK: u64 = 4096;

/// How many names in a row may be taken by other files. Then the program has no file.
const MOST_TAKEN: u32 = 16;

/// The mark of a program's file: the nanoseconds of the time of its last change. Any change removes it.
const MARK: i64 = 1;

const STEM: &str = "main";

/// A program's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProgramFile {
    pub(crate) name: String,
    /// Whether it is there. If not (the disk is full), the program runs without it.
    pub(crate) written: bool,
}

/// The files of a sandbox's programs.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    number: u32,
    kept: VecDeque<(String, u64)>,
    bytes: u64,
}

impl Programs {
    /// Writes the next program into the directory `folder`, which is below `base` and out of the jobs' reach. A file
    /// that a job has put in its place is left alone: the program takes the next name.
    pub(crate) fn write(&mut self, base: BorrowedFd<'_>, folder: &str, extension: &str, code: &str) -> ProgramFile {
        if code.is_empty() {
            return ProgramFile { name: name(self.number + 1, extension), written: false };
        }
        let last = self.number.saturating_add(MOST_TAKEN);
        loop {
            self.number += 1;
            let name = name(self.number, extension);
            let path = format!("{folder}/{name}");
            // This fails whatever a job has put there, and follows nothing.
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let made = openat(base, &*path, flags, Mode::from_raw_mode(0o644)).map(File::from);
            let written = match made {
                // A client that sends its folder sends the program, too.
                Err(Errno::EXIST) if holds(base, &path, code) => true,
                Err(Errno::EXIST) if self.number < last => continue,
                Err(_) => false,
                Ok(file) if fill(&file, code).is_err() => {
                    let _ = unlinkat(base, &*path, AtFlags::empty());
                    false
                }
                Ok(_) => {
                    self.keep(path, code.len() as u64);
                    true
                }
            };
            return ProgramFile { name, written };
        }
    }

    fn keep(&mut self, path: String, size: u64) {
        let size = size.max(BLOCK);
        self.kept.push_back((path, size));
        self.bytes += size;
    }

    /// Removes the oldest files that are too many, but none that a job has changed. `base` is as for
    /// [`write`](Self::write), which leaves this to be done while the program runs.
    pub(crate) fn prune(&mut self, base: BorrowedFd<'_>) {
        while self.bytes > MOST_KEPT
            && self.kept.len() > 1
            && let Some((path, size)) = self.kept.pop_front()
        {
            self.bytes -= size;
            if statat(base, &*path, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| has_mark(&stat)) {
                let _ = unlinkat(base, &*path, AtFlags::empty());
            }
        }
    }
}

/// The name of the program of this number, from 1.
fn name(number: u32, extension: &str) -> String {
    match number {
        1 => format!("{STEM}.{extension}"),
        _ => format!("{STEM}_{number}.{extension}"),
    }
}

fn fill(mut file: &File, code: &str) -> io::Result<()> {
    file.write_all(code.as_bytes())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let changed = Timespec { tv_sec: now.as_secs() as _, tv_nsec: MARK as _ };
    Ok(futimens(file, &Timestamps { last_access: changed, last_modification: changed })?)
}

/// Whether that file is this program.
fn holds(base: BorrowedFd<'_>, path: &str, code: &str) -> bool {
    let read = || {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(base, path, flags, Mode::empty())?;
        let stat = fstat(&file)?;
        let mut bytes = Vec::new();
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_size as usize == code.len() {
            File::from(file).take(code.len() as u64).read_to_end(&mut bytes)?;
            return Ok(bytes == code.as_bytes());
        }
        Ok::<_, io::Error>(false)
    };
    read().unwrap_or(false)
}

#[allow(clippy::unnecessary_cast, clippy::cast_lossless, reason = "the type of the field differs between platforms")]
fn has_mark(stat: &Stat) -> bool {
    stat.st_mtime_nsec as i64 == MARK && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// Whether this is a program's file that nobody has changed.
pub(crate) fn is_programs_own(name: &[u8], stat: &Stat) -> bool {
    let numbered = |stem: &[u8]| match stem.strip_prefix(STEM.as_bytes()) {
        Some(b"") => true,
        Some([b'_', digits @ ..]) => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    let stem = name.iter().rposition(|byte| *byte == b'.').map(|dot| &name[..dot]);
    has_mark(stat) && stem.is_some_and(numbered)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn each_program_has_a_file_and_others_keep_theirs() {
        let dir = tempfile::tempdir().unwrap();
        let base = File::open(dir.path()).unwrap();
        let folder = dir.path().join("w");
        std::fs::create_dir(&folder).unwrap();
        let mut programs = Programs::default();
        let mut write = |code: &str| programs.write(base.as_fd(), "w", "py", code);
        let written = |name: &str| ProgramFile { name: name.into(), written: true };
        assert_eq!(write(""), ProgramFile { name: "main.py".into(), written: false });
        assert_eq!(write("1"), written("main.py"));
        std::fs::write(folder.join("main_2.py"), "mine").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.join("main_3.py")).unwrap();
        std::fs::write(folder.join("main_4.py"), "the same").unwrap();
        assert_eq!(write("the same"), written("main_4.py"));
        assert_eq!(write("5"), written("main_5.py"));
        let own = |name: &str| {
            let stat = statat(&base, format!("w/{name}"), AtFlags::SYMLINK_NOFOLLOW).unwrap();
            is_programs_own(name.as_bytes(), &stat)
        };
        assert_eq!(["main.py", "main_5.py"].map(own), [true, true]);
        assert_eq!(["main_2.py", "main_3.py", "main_4.py"].map(own), [false; 3]);
        std::fs::write(folder.join("main_5.py"), "5").unwrap();
        std::fs::rename(folder.join("main.py"), folder.join("kept.py")).unwrap();
        assert_eq!(["main_5.py", "kept.py"].map(own), [false; 2], "changed, and renamed");
        for taken in 6..22 {
            std::fs::create_dir(folder.join(format!("main_{taken}.py"))).unwrap();
        }
        assert_eq!(write("6"), ProgramFile { name: "main_21.py".into(), written: false });
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(write("7"), ProgramFile { name: "main_22.py".into(), written: false });
    }

    #[test]
    fn the_oldest_files_go_unless_they_were_changed() {
        let dir = tempfile::tempdir().unwrap();
        let base = File::open(dir.path()).unwrap();
        let mut programs = Programs::default();
        let large = "#".repeat(400 << 10);
        for _ in 0..2 {
            programs.write(base.as_fd(), ".", "py", &large);
        }
        std::fs::write(dir.path().join("main.py"), "mine").unwrap();
        programs.write(base.as_fd(), ".", "py", &large);
        programs.write(base.as_fd(), ".", "py", &large);
        programs.prune(base.as_fd());
        let mut left: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["main.py", "main_3.py", "main_4.py"]);
    }
}
