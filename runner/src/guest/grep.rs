//! Finds lines by a regular expression. Neither files nor lines need to be text.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::BorrowedFd;

use regex::bytes::{Regex, RegexBuilder};
use rustix::fs::{Mode, OFlags, fstat, openat};

use super::failure::{because, on};
use super::glob::Glob;
use super::paths;
use super::walk::{DEEPEST, Place, Room, Walk};
use crate::frames::{ByteString, Failure, FileKind, Match, Matches};

/// Most bytes of a line that are searched at once. A longer line is searched in pieces of this size.
const LONGEST: u64 = 1 << 20;

/// Most bytes of a line in the result, and how many of them may stand before the match.
const SHOWN: usize = 4096;
const BEFORE: usize = 1024;

/// A search.
pub(super) struct Search {
    regex: Regex,
    glob: Option<Glob>,
    room: Room,
    found: Matches,
}

impl Search {
    /// # Errors
    /// If the pattern or the glob has no meaning.
    pub(super) fn new(pattern: &str, glob: Option<&str>, ignore_case: bool, most: u32) -> Result<Self, Failure> {
        let regex = RegexBuilder::new(pattern).case_insensitive(ignore_case).build();
        Ok(Self {
            regex: regex.map_err(|e| because(pattern, libc::EINVAL, e.to_string()))?,
            glob: glob.map(Glob::new).transpose()?,
            room: Room::new(most),
            found: Matches::default(),
        })
    }

    /// Searches a file, or all files below a directory.
    ///
    /// # Errors
    /// If the file or the directory can't be read. What can't be read below the directory is skipped.
    pub(super) fn run(mut self, path: &ByteString) -> Result<Matches, Failure> {
        if paths::stat(path, false)?.kind != FileKind::Directory {
            let file = paths::regular(path, OFlags::RDONLY)?;
            self.search(file, b"").map_err(on(path.clone()))?;
            return Ok(self.found);
        }
        let mut walk = Walk::new(path, DEEPEST)?;
        while !self.found.cut
            && let Some(place) = walk.next()
        {
            let wanted = self.glob.as_ref().is_none_or(|glob| glob.matches(&place.path));
            let Some(dir) = walk.dir().filter(|_| wanted && paths::kind(place.stat.st_mode) == FileKind::File) else {
                continue;
            };
            if open(dir, &place).and_then(|file| self.search(file, &place.path)).is_err() {
                self.found.skipped += 1;
            }
        }
        self.found.skipped += walk.skipped;
        Ok(self.found)
    }

    fn search(&mut self, file: File, path: &[u8]) -> io::Result<()> {
        let mut reader = BufReader::with_capacity(64 << 10, file);
        let (mut text, mut line, mut offset) = (Vec::new(), 1, 0);
        loop {
            text.clear();
            let got = reader.by_ref().take(LONGEST).read_until(b'\n', &mut text)? as u64;
            if got == 0 {
                return Ok(());
            }
            let whole = text.pop_if(|byte| *byte == b'\n').is_some();
            if let Some(at) = self.regex.find(&text) {
                let begin = if text.len() > SHOWN { at.start().saturating_sub(BEFORE) } else { 0 };
                let shown = &text[begin..text.len().min(begin + SHOWN)];
                if !self.room.take(path.len() + shown.len()) {
                    self.found.cut = true;
                    return Ok(());
                }
                self.found.lines.push(Match { path: path.into(), line, offset, text: shown.into() });
            }
            offset += got;
            line += u64::from(whole);
        }
    }
}

/// Opens a file that the walk has come to. Meanwhile, something else may be in its place.
fn open(dir: BorrowedFd<'_>, place: &Place) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(dir, &place.name, flags, Mode::empty())?;
    match paths::kind(fstat(&file)?.st_mode) {
        FileKind::File => Ok(file.into()),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}
