//! The files that the program reads, and the one that it adds to.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use thermae_capabilities::Set;
use thermae_tokens::LARGEST_TOKEN;

use crate::error::Error;

/// Most bytes of a file of capabilities. It may have more space than a set has bytes.
const LARGEST_SET: usize = 1 << 20;

/// Most bytes of a list of revoked tokens.
const LARGEST_LIST: usize = 64 << 20;

/// Reads the text of a token. `-` is standard input.
pub(crate) fn token(path: &Path) -> Result<String, Error> {
    // A longer text is refused by whoever reads the token, with a code.
    let most = LARGEST_TOKEN + 2;
    let text = if path == Path::new("-") { some(io::stdin(), most) } else { open(path).and_then(|f| some(f, most)) };
    Ok(text.map_err(Error::file(path))?.trim_end().to_owned())
}

/// Reads a file of capabilities.
pub(crate) fn capabilities(path: &Path) -> Result<Set, Error> {
    let text = whole(path, LARGEST_SET)?;
    Set::from_json(&text).map_err(|source| Error::Capabilities { path: path.to_owned(), source })
}

/// Reads a list of revoked tokens.
pub(crate) fn revoked(path: &Path) -> Result<String, Error> {
    whole(path, LARGEST_LIST)
}

/// Reads a list of revoked tokens. It is empty if the file is not there.
pub(crate) fn revoked_if_any(path: &Path) -> Result<String, Error> {
    match revoked(path) {
        Err(Error::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        text => text,
    }
}

/// Adds a line to a file that has this text. One write, so that whoever reads the file sees the line or not.
pub(crate) fn append(path: &Path, before: &str, line: &str) -> Result<(), Error> {
    let start = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    let add = || {
        let mut file = OpenOptions::new().append(true).create(true).mode(0o644).open(path)?;
        file.write_all(format!("{start}{line}\n").as_bytes())?;
        file.sync_all()
    };
    add().map_err(Error::file(path))
}

fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// The first bytes of a text.
fn some(from: impl Read, most: usize) -> io::Result<String> {
    let mut text = String::new();
    from.take(most as u64).read_to_string(&mut text)?;
    Ok(text)
}

fn whole(path: &Path, most: usize) -> Result<String, Error> {
    let text = open(path).and_then(|file| some(file, most + 1)).map_err(Error::file(path))?;
    if text.len() > most { Err(Error::Large(path.to_owned())) } else { Ok(text) }
}
