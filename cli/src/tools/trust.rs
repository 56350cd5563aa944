//! Decides whether a tools file beside a program may be used: only if the user has trusted its path and its content.
//!
//! A tools file names commands that run on this machine. Anyone who can put a file beside a program (with an archive, a
//! clone or a job's artifact) could choose these commands. So such a file is used only after `thermae trust FILE`,
//! which records its path and the SHA-256 of its content. If the content changes, the file is no longer trusted.

use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{FILE, ToolsFile};
use crate::args::TrustArgs;
use crate::failure::{Exit, Failure};
use crate::style;

/// Largest tools file, in bytes.
const LARGEST: u64 = 1 << 20;

/// Whether a tools file may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The user has trusted this content at this path.
    Trusted,
    /// The user has trusted another content at this path.
    Changed,
    /// The user has never trusted this path.
    Unknown,
}

/// The records of trust: for each trusted path a file, named by the path's hash, with the content's hash and the path.
/// `None` if this user has no place for records.
#[derive(Debug, Clone)]
pub(crate) struct Trust(Option<PathBuf>);

impl Trust {
    /// The records of this user, below `XDG_STATE_HOME` or else `~/.local/state`. Without a home, nothing is trusted.
    pub(crate) fn of_user() -> Self {
        let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
        Self(state.map(|state| state.join("thermae/trusted")))
    }

    /// Records in this folder.
    #[cfg(test)]
    pub(crate) fn below(folder: &Path) -> Self {
        Self(Some(folder.to_owned()))
    }

    /// Whether this content at this path is trusted.
    pub(super) fn verdict(&self, path: &Path, content: &[u8]) -> Verdict {
        let record = self.record(path).and_then(std::fs::read);
        match record {
            Ok(record) if record.starts_with(format!("{}\n", hash(content)).as_bytes()) => Verdict::Trusted,
            Ok(_) => Verdict::Changed,
            Err(_) => Verdict::Unknown,
        }
    }

    /// Trusts this content at this path.
    pub(super) fn add(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let (at, path) = (self.record(path)?, place(path)?);
        let folder = at.parent().unwrap_or(Path::new("/"));
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut record = tempfile::NamedTempFile::new_in(folder)?;
        let path = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str());
        record.write_all(&[hash(content).as_bytes(), b"\n", path, b"\n"].concat())?;
        record.persist(at).map_err(|error| error.error)?;
        Ok(())
    }

    /// Stops trusting a path. Gives whether it was trusted.
    fn remove(&self, path: &Path) -> io::Result<bool> {
        match std::fs::remove_file(self.record(path)?) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn record(&self, path: &Path) -> io::Result<PathBuf> {
        let none = || io::Error::other("there is no place for records of trust: set XDG_STATE_HOME or HOME");
        let path = place(path)?;
        let path = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str());
        Ok(self.0.as_ref().ok_or_else(none)?.join(hash(path)))
    }
}

/// The one path of a file: its folder without links, and its own name. A link in the name is not followed, because
/// commands run in the folder of the name.
fn place(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| io::Error::other("it is not the name of a file"))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(folder.canonicalize()?.join(name))
}

fn hash(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Reads a tools file. Accepts only a regular file of limited size, so that nobody can make this program wait.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let unread = |why: &dyn std::fmt::Display| {
        Failure::usage("bad_tools_file", format!("can't read the tools file {}: {why}", path.display()))
    };
    // Without this flag, opening a FIFO would wait for a writer.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path).map_err(|error| unread(&error))?;
    let meta = file.metadata().map_err(|error| unread(&error))?;
    if !meta.is_file() || meta.size() > LARGEST {
        return Err(unread(&"it is not a regular file of at most 1 MiB"));
    }
    let mut content = Vec::new();
    file.take(LARGEST).read_to_end(&mut content).map_err(|error| unread(&error))?;
    Ok(content)
}

/// `thermae trust`: trusts a tools file and prints its tools, or stops trusting it.
///
/// # Errors
/// The file can't be read or used, or the record can't be written.
pub(crate) fn command(args: &TrustArgs) -> Result<Exit, Failure> {
    let path = args.file.clone().unwrap_or_else(|| PathBuf::from(FILE));
    let trust = Trust::of_user();
    let failed = |error: io::Error| {
        Failure::usage("trust_not_recorded", format!("can't change the trust in {}: {error}", path.display()))
    };
    if args.forget {
        let known = trust.remove(&path).map_err(failed)?;
        let word = if known { "no longer trusted" } else { "was not trusted" };
        style::say(&format!("{}: {word}\n", path.display()));
        return Ok(if known { Exit::Success } else { Exit::Code });
    }
    let content = read(&path)?;
    let file = ToolsFile::parse(&path, &content)?;
    trust.add(&path, &content).map_err(failed)?;
    let mut text = format!("trusted {} as it is now. Its tools run on this machine, as you:\n", path.display());
    for (name, entry) in &file.tools {
        text.push_str(&format!("  {name}: {}\n", entry.command));
    }
    style::say(&text);
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_is_of_one_content_at_one_place() {
        let dir = tempfile::tempdir().unwrap();
        let trust = Trust::below(&dir.path().join("state"));
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("a")).unwrap();
        std::fs::create_dir_all(at("b")).unwrap();
        std::fs::write(at("a/thermae.toml"), "x").unwrap();
        let verdict = |name: &str, content: &[u8]| trust.verdict(&at(name), content);
        assert_eq!(verdict("a/thermae.toml", b"x"), Verdict::Unknown);
        trust.add(&at("a/thermae.toml"), b"x").unwrap();
        assert_eq!(verdict("a/thermae.toml", b"x"), Verdict::Trusted);
        assert_eq!(verdict("a/../a/thermae.toml", b"x"), Verdict::Trusted);
        assert_eq!(verdict("a/thermae.toml", b"x "), Verdict::Changed);
        assert_eq!(verdict("b/thermae.toml", b"x"), Verdict::Unknown);
        // A link to a trusted file has another path, and its commands would run in another folder.
        std::os::unix::fs::symlink(at("a/thermae.toml"), at("b/thermae.toml")).unwrap();
        assert_eq!(verdict("b/thermae.toml", b"x"), Verdict::Unknown);
        trust.add(&at("a/thermae.toml"), b"y").unwrap();
        assert_eq!(
            (verdict("a/thermae.toml", b"x"), verdict("a/thermae.toml", b"y")),
            (Verdict::Changed, Verdict::Trusted)
        );
        assert!(trust.remove(&at("a/thermae.toml")).unwrap() && !trust.remove(&at("a/thermae.toml")).unwrap());
        assert_eq!(verdict("a/thermae.toml", b"y"), Verdict::Unknown);
    }

    #[test]
    fn whoever_has_no_home_trusts_nothing() {
        let trust = Trust(None);
        assert_eq!(trust.verdict(Path::new("/etc/passwd"), b""), Verdict::Unknown);
        assert!(trust.add(Path::new("/etc/passwd"), b"").unwrap_err().to_string().contains("HOME"));
    }

    #[test]
    fn a_fifo_of_that_name_makes_nobody_wait() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join(FILE);
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        assert!(read(&fifo).unwrap_err().message.contains("not a regular file"));
    }
}
