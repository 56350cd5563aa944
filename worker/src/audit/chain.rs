//! The file of the audit log: lines of JSON, each with the digest of the line before.
//!
//! A line that was changed, removed or inserted breaks the chain, unless all lines after it are written anew. So keep
//! the last digest elsewhere from time to time. The digest of the last line of a file begins the next file.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use sha2::{Digest, Sha256};

/// The digest before the first line of all.
pub(super) const NONE: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Longest line that is looked for at the end of a file, in bytes. No line is longer.
const LONGEST: u64 = 1 << 20;

/// Digest of a line, without its end, in hexadecimal digits.
pub(super) fn digest(line: &[u8]) -> String {
    hex::encode(Sha256::digest(line))
}

/// A file that lines are appended to. Only one process can have it open.
#[derive(Debug)]
pub(super) struct Chain {
    path: PathBuf,
    file: File,
    last: String,
}

impl Chain {
    /// Opens the file, or makes it. Goes on after its last line.
    ///
    /// # Errors
    /// The file can't be opened or read, or another process has it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let (file, last) = open(path)?;
        Ok(Self { path: path.to_path_buf(), file, last: last.unwrap_or_else(|| NONE.to_owned()) })
    }

    /// Opens the file again if it was moved away or removed. Returns whether it did.
    ///
    /// # Errors
    /// As for [`Chain::open`].
    pub(super) fn follow(&mut self) -> io::Result<bool> {
        let own = self.file.metadata()?;
        match std::fs::metadata(&self.path) {
            Ok(there) if (there.dev(), there.ino()) == (own.dev(), own.ino()) => return Ok(false),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let (file, last) = open(&self.path)?;
        self.file = file;
        if let Some(last) = last {
            self.last = last;
        }
        Ok(true)
    }

    /// Appends lines. Each is a JSON object without its opening brace; its digests are added here.
    ///
    /// # Errors
    /// They can't be written. Some of them may be there, and then the chain goes on after them.
    pub(super) fn append<'a>(&mut self, fields: impl Iterator<Item = &'a str>, sync: bool) -> io::Result<()> {
        let (mut text, mut last) = (Vec::new(), self.last.clone());
        for fields in fields {
            let line = format!("{{\"prev\":\"{last}\",{fields}");
            last = digest(line.as_bytes());
            text.extend_from_slice(line.as_bytes());
            text.push(b'\n');
        }
        let end = self.file.metadata()?.len();
        let written = self.file.write_all(&text).and_then(|()| if sync { self.file.sync_data() } else { Ok(()) });
        match written {
            Ok(()) => self.last = last,
            // What is there of them must not stay: the calls are refused.
            Err(_) => self.file.set_len(end)?,
        }
        written
    }
}

/// The open file, and the digest of its last line if it has one.
fn open(path: &Path) -> io::Result<(File, Option<String>)> {
    // Nobody may be at the other end of a FIFO.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut file =
        OpenOptions::new().read(true).append(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    let refused = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    if !found.is_file() {
        return refused("it is not a regular file");
    }
    if found.mode() & 0o022 != 0 {
        return refused("others than its owner may write to it");
    }
    flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| io::Error::new(io::ErrorKind::WouldBlock, "another process writes to it"))?;
    let length = file.metadata()?.len();
    if length == 0 {
        return Ok((file, None));
    }
    let from = length.saturating_sub(LONGEST);
    file.seek(SeekFrom::Start(from))?;
    let mut end = Vec::new();
    file.read_to_end(&mut end)?;
    if end.pop_if(|byte| *byte == b'\n').is_none() {
        // The machine failed within this line.
        file.write_all(b"\n")?;
    }
    let begins = end.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    if begins == 0 && from > 0 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "its last line is too long to be a line of an audit log",
        ));
    }
    Ok((file, Some(digest(&end[begins..]))))
}
