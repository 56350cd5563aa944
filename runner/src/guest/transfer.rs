//! Reads and writes the content of files, by way of the process's standard streams.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, accessat, fchmod, fstat, linkat, openat, renameat, unlinkat};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::failure::on;
use super::paths;
use crate::frames::{ByteString, Digested, Failure, Transferred, WriteMode};

/// The permission bits of a new file.
const NEW: u32 = 0o644;

/// Sends the content of a file to standard output.
pub(super) fn read(path: &ByteString, offset: u64, length: Option<u64>) -> Result<Transferred, Failure> {
    let mut file = paths::regular(path, OFlags::RDONLY)?;
    let mut send = || {
        if offset > 0 {
            file.seek(SeekFrom::Start(offset))?;
        }
        copy(&mut (&mut file).take(length.unwrap_or(u64::MAX)), &mut stream(1)?)
    };
    let bytes = send().map_err(on(path.clone()))?;
    Ok(Transferred { bytes, size: size(&file) })
}

/// Tells what the content of a file is.
pub(super) fn digest(path: &ByteString) -> Result<Digested, Failure> {
    let mut file = paths::regular(path, OFlags::RDONLY)?;
    let mut content = Content(Sha256::new());
    let size = copy(&mut file, &mut content).map_err(on(path.clone()))?;
    Ok(Digested { size, sha256: hex::encode(content.0.finalize()) })
}

/// Takes content, and keeps its digest.
struct Content(Sha256);

impl Write for Content {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes standard input to a file.
pub(super) fn write(path: &ByteString, mode: WriteMode, permissions: Option<u32>) -> Result<Transferred, Failure> {
    let failed = |e: io::Error| on(path.clone())(e);
    let link = mode == WriteMode::CreateNew;
    let there = match paths::look(&path.0, link) {
        Ok(_) if link => return Err(on(path.clone())(Errno::EXIST)),
        Ok(found) => {
            paths::be_regular(path, &found)?;
            Some(found)
        }
        Err(Errno::NOENT) => None,
        Err(e) => return Err(on(path.clone())(e)),
    };
    let old = there.as_ref().and_then(|found| fstat(found).ok()).map(|stat| stat.st_mode & 0o7777);
    let bits = Mode::from_raw_mode(permissions.or(old).unwrap_or(NEW) & 0o7777);
    let (file, bytes) = match (mode, there) {
        (WriteMode::Truncate, Some(found)) => replace(&found, bits).map_err(failed)?,
        (WriteMode::Truncate, None) => {
            let mut file = Unnamed::new(&path.0).map_err(failed)?;
            let bytes = file.fill(&mut stream(0).map_err(failed)?).map_err(failed)?;
            (file.put(bits, true).map_err(failed)?, bytes)
        }
        (WriteMode::CreateNew, _) => {
            let mut file = Unnamed::new(&path.0).map_err(failed)?;
            let bytes = file.fill(&mut stream(0).map_err(failed)?).map_err(failed)?;
            (file.put(bits, false).map_err(failed)?, bytes)
        }
        (WriteMode::Extend(_), None) => return Err(failed(Errno::NOENT.into())),
        (WriteMode::Append | WriteMode::At(_) | WriteMode::Extend(_), there) => {
            in_place(path, mode, there, permissions).map_err(failed)?
        }
    };
    Ok(Transferred { bytes, size: size(&file) })
}

/// Replaces a regular file by standard input.
fn replace(found: &OwnedFd, bits: Mode) -> io::Result<(File, u64)> {
    // Replacing needs no permission to write to the old file, but who may not write to it would be surprised.
    accessat(CWD, paths::own_path(found), Access::WRITE_OK, AtFlags::empty())?;
    let mut file = Unnamed::new(&paths::real_path(found)?)?;
    let bytes = file.fill(&mut stream(0)?)?;
    Ok((file.put(bits, true)?, bytes))
}

/// Writes standard input into a file, which is made if it is not there.
fn in_place(
    path: &ByteString,
    mode: WriteMode,
    there: Option<OwnedFd>,
    permissions: Option<u32>,
) -> io::Result<(File, u64)> {
    let appends = matches!(mode, WriteMode::Append | WriteMode::Extend(_));
    let flags = OFlags::WRONLY | if appends { OFlags::APPEND } else { OFlags::empty() };
    let mut file = match there {
        Some(found) => paths::reopen(&found, flags)?,
        None => {
            let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            File::from(openat(CWD, &*path.0, flags, Mode::from_raw_mode(NEW))?)
        }
    };
    if let WriteMode::Extend(end) = mode
        && size(&file) != end
    {
        return Err(Errno::STALE.into());
    }
    if let Some(bits) = permissions {
        fchmod(&file, Mode::from_raw_mode(bits & 0o7777))?;
    }
    if let WriteMode::At(offset) = mode {
        file.seek(SeekFrom::Start(offset))?;
    }
    let copied = copy(&mut stream(0)?, &mut file);
    if let (Err(_), WriteMode::Extend(end)) = (&copied, mode) {
        // So that the same bytes can be added later.
        let _ = file.set_len(end);
    }
    Ok((file, copied?))
}

/// A file that has no name until it is complete. If the process is killed before, nothing is left of the file.
pub(super) struct Unnamed {
    file: File,
    dir: OwnedFd,
    name: Vec<u8>,
}

impl Unnamed {
    /// Makes a file that is to have that path.
    pub(super) fn new(path: &[u8]) -> io::Result<Self> {
        let split = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let (above, name) = path.split_at(split);
        if matches!(name, b"" | b"." | b"..") {
            return Err(Errno::ISDIR.into());
        }
        let dir = paths::look(if above.is_empty() { b"." } else { above }, false)?;
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        let file = openat(CWD, paths::own_path(&dir), flags, Mode::from_raw_mode(0o600))?.into();
        Ok(Self { file, dir, name: name.to_vec() })
    }

    /// Writes everything from there into the file. Returns the number of bytes.
    pub(super) fn fill(&mut self, from: &mut impl Read) -> io::Result<u64> {
        copy(from, &mut self.file)
    }

    /// The file, to change what else it has.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Gives the complete file its permission bits and its name. With `over`, it replaces what has the name; otherwise
    /// that is an error.
    pub(super) fn put(self, bits: Mode, over: bool) -> io::Result<File> {
        fchmod(&self.file, bits)?;
        let own = paths::own_path(&self.file);
        if !over {
            linkat(CWD, own, &self.dir, &*self.name, AtFlags::SYMLINK_FOLLOW)?;
            return Ok(self.file);
        }
        // A link replaces nothing, but a rename does.
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let interim = format!(".{}", hex::encode(random));
        linkat(CWD, own, &self.dir, &*interim, AtFlags::SYMLINK_FOLLOW)?;
        if let Err(e) = renameat(&self.dir, &*interim, &self.dir, &*self.name) {
            let _ = unlinkat(&self.dir, &*interim, AtFlags::empty());
            return Err(e.into());
        }
        Ok(self.file)
    }
}

/// Standard input (0) or standard output (1).
fn stream(number: i32) -> io::Result<File> {
    let fd = match number {
        0 => rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?,
        _ => rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?,
    };
    Ok(fd.into())
}

fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<u64> {
    let (mut chunk, mut sum) = (vec![0; 64 << 10], 0);
    loop {
        match from.read(&mut chunk) {
            Ok(0) => return Ok(sum),
            Ok(n) => {
                to.write_all(&chunk[..n])?;
                sum += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

fn size(file: &File) -> u64 {
    fstat(file).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0))
}
