//! Reads files of `/proc` with few system calls. These files report no size, so `std::fs::read` starts with 32 bytes
//! and grows, which takes up to ten calls for a file of one page.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

/// Size of the first read, in bytes. Most files of `/proc` fit into it.
const ROOM: usize = 4096;

/// Reads a file of `/proc`.
///
/// # Errors
/// If the file can't be opened or read.
pub(crate) fn bytes(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    bytes_of(File::open(path)?)
}

fn bytes_of(file: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(ROOM);
    // `take` keeps the standard library from asking for the size.
    file.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a file of `/proc` as text. What is no UTF-8 is replaced: a process may give itself any name, and with an error
/// here it would not be counted.
///
/// # Errors
/// If the file can't be opened or read.
pub(crate) fn text(path: impl AsRef<Path>) -> io::Result<String> {
    text_of(File::open(path)?)
}

/// As [`text`], for an open file.
///
/// # Errors
/// If the file can't be read.
pub(crate) fn text_of(file: File) -> io::Result<String> {
    bytes_of(file).map(text_from)
}

/// As [`text`], for an open file that may have been read before. It is read from its beginning.
///
/// # Errors
/// If the file can't be read.
pub(crate) fn text_again(mut file: &File) -> io::Result<String> {
    file.rewind()?;
    bytes_of(file).map(text_from)
}

fn text_from(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

/// Number of open descriptors of the process whose `fd` directory this is. Since Linux 6.2 it is the directory's size.
/// Before, the entries are counted; for this process itself they include the descriptor that reads the directory.
///
/// # Errors
/// If the directory can't be read.
pub(crate) fn descriptors(directory: impl AsRef<Path>) -> io::Result<usize> {
    match std::fs::metadata(&directory)?.len() {
        0 => Ok(std::fs::read_dir(directory)?.count()),
        told => Ok(usize::try_from(told).unwrap_or(usize::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_any_length_is_read_whole() {
        let long = text("/proc/self/smaps").unwrap();
        assert!(long.len() > ROOM, "{}", long.len());
        assert!(long.trim_end().lines().last().unwrap().starts_with("VmFlags:"));
        assert_eq!(text("/proc/self/comm").unwrap(), std::fs::read_to_string("/proc/self/comm").unwrap());
        let status = File::open("/proc/self/status").unwrap();
        let lines = |text: String| text.lines().count();
        assert_eq!(lines(text_again(&status).unwrap()), lines(text("/proc/self/status").unwrap()));
        assert_eq!(lines(text_again(&status).unwrap()), lines(text("/proc/self/status").unwrap()));
        assert_eq!(text("/proc/self/none").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn each_descriptor_counts() {
        // Other tests of this process open and close descriptors meanwhile.
        let before = descriptors("/proc/self/fd").unwrap();
        let held: Vec<File> = (0..500).map(|_| File::open("/dev/null").unwrap()).collect();
        let grown = descriptors("/proc/self/fd").unwrap() - before;
        assert!((400..600).contains(&grown), "{grown}");
        drop(held);
        assert!(descriptors("/proc/0/fd").is_err());
    }
}
