//! The operations on a sandbox's files, and their results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::PathText;
use crate::optional::{integer, integer_or, nullable, or_default, some_integer};

/// An operation on the files that a sandbox shows. A process in the sandbox does it, so it can do what the
/// session's programs can do, and links mean what they mean to them.
///
/// Paths are absolute, or relative to `/workspace`. Links are followed, except those of `/proc` that lead to what a
/// process holds open (`ELOOP`). Only regular files are read and written: anything else is refused at once (`EISDIR`
/// for a directory, `EINVAL` for a FIFO, a socket or a device).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "FileOp", rename_all = "snake_case", tag = "op", deny_unknown_fields)]
#[schemars(transform = nullable)]
pub enum FileOp {
    /// Describes what is at a path. The result is a [`FileStat`].
    Stat {
        /// The path.
        path: PathText,
        /// Describe the link itself, if there is one.
        #[serde(default, deserialize_with = "or_default")]
        link: bool,
    },
    /// Lists a directory. The result is a [`Listing`].
    List {
        /// The directory.
        path: PathText,
        /// 1 for the directory itself, 2 also for the directories in it, and so on. Links and `/proc` are not entered.
        #[serde(default = "one", deserialize_with = "integer_or::<1, _, _>")]
        depth: u32,
        /// Most entries in the result.
        #[serde(deserialize_with = "integer")]
        most: u32,
    },
    /// Sends a file's content as standard output. The result is a [`Transferred`].
    Read {
        /// The file.
        path: PathText,
        /// Where to begin, in bytes.
        #[serde(default, deserialize_with = "integer_or::<0, _, _>")]
        offset: u64,
        /// Most bytes to send; `None` for all.
        #[serde(default, deserialize_with = "some_integer", skip_serializing_if = "Option::is_none")]
        length: Option<u64>,
    },
    /// Writes the request's input to a file. The result is a [`Transferred`].
    Write {
        /// The file.
        path: PathText,
        /// What happens to a file that is there.
        mode: WriteMode,
        /// Permission bits of the file. By default, those of the file that is there, or 0644.
        #[serde(default, deserialize_with = "some_integer", skip_serializing_if = "Option::is_none")]
        permissions: Option<u32>,
    },
    /// Makes a directory.
    MakeDir {
        /// The directory.
        path: PathText,
        /// Make the directories above it, too, and accept that it is there already.
        #[serde(default, deserialize_with = "or_default")]
        parents: bool,
    },
    /// Moves a file or directory. A regular file may go to another file system.
    Move {
        /// What to move.
        from: PathText,
        /// Its new path. A file that is there is replaced.
        to: PathText,
    },
    /// Removes a file, a link or an empty directory.
    Remove {
        /// What to remove.
        path: PathText,
        /// Remove directories with everything in them.
        #[serde(default, deserialize_with = "or_default")]
        recursive: bool,
    },
    /// Finds paths by a pattern: `*`, `?` and `[a-z]` within a name, `**` for any number of directories. The result is
    /// [`Found`].
    Glob {
        /// The directory that the pattern is relative to.
        path: PathText,
        /// The pattern.
        pattern: String,
        /// Most paths in the result.
        #[serde(deserialize_with = "integer")]
        most: u32,
    },
    /// Finds lines by a regular expression (the syntax is that of Rust's `regex`). The result is [`Matches`].
    Grep {
        /// A file, or a directory whose files are searched.
        path: PathText,
        /// The regular expression.
        pattern: String,
        /// Only files whose paths match this pattern (as in [`FileOp::Glob`]).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        glob: Option<String>,
        /// Make no difference between upper and lower case.
        #[serde(default, deserialize_with = "or_default")]
        ignore_case: bool,
        /// Most lines in the result.
        #[serde(deserialize_with = "integer")]
        most: u32,
    },
    /// Reads a regular file, and tells what its content is. The result is a [`Digested`].
    Digest {
        /// The file.
        path: PathText,
    },
    /// Resolves all links of a path. The result is a [`Resolved`].
    RealPath {
        /// The path.
        path: PathText,
    },
}

fn one() -> u32 {
    1
}

/// What a write does to the file that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WriteMode {
    /// Replaces it once the input is complete. Until then, and if the write is killed, everybody sees the old file.
    Truncate,
    /// Adds to its end.
    Append,
    /// Fails with `EEXIST`. The new file appears once the input is complete.
    CreateNew,
    /// Writes over it from this offset on, in bytes.
    At(#[serde(deserialize_with = "integer")] u64),
    /// Adds to its end, which must be at this offset, in bytes. Fails with `ENOENT` if there is no file, and with `ESTALE`
    /// if its end is elsewhere.
    Extend(#[serde(deserialize_with = "integer")] u64),
}

/// What a path stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A FIFO.
    Fifo,
    /// A Unix socket.
    Socket,
    /// A device.
    Device,
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileStat {
    /// Its kind.
    pub kind: FileKind,
    /// Its size in bytes.
    pub size: u64,
    /// Its permission bits.
    pub permissions: u32,
    /// When its content last changed, in nanoseconds since 1970.
    pub modified_ns: i64,
    /// What a link leads to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<PathText>,
}

/// The entries of a directory, sorted by name. The entries of a directory follow it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Listing {
    /// The entries.
    pub entries: Vec<Entry>,
    /// Whether there are more. At most some megabytes are sent.
    pub cut: bool,
    /// Number of directories that could not be read.
    #[serde(default)]
    pub skipped: u64,
}

/// One entry of a [`Listing`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// Its path, relative to the directory that was asked for.
    pub path: PathText,
    /// What it is.
    #[serde(flatten)]
    pub stat: FileStat,
}

/// The result of a read or a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Transferred {
    /// How many bytes were read or written.
    pub bytes: u64,
    /// The file's size afterwards, in bytes.
    pub size: u64,
}

/// What the content of a file is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Digested {
    /// How many bytes it has.
    pub size: u64,
    /// Its SHA-256, in hexadecimal digits.
    pub sha256: String,
}

/// Paths that match a pattern, in the order of [`Listing`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Found {
    /// The paths, relative to the directory that was asked for.
    pub paths: Vec<PathText>,
    /// As [`Listing::cut`].
    pub cut: bool,
    /// As [`Listing::skipped`].
    #[serde(default)]
    pub skipped: u64,
}

/// Lines that match a regular expression.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Matches {
    /// The lines, in the order of [`Listing`].
    pub lines: Vec<Match>,
    /// As [`Listing::cut`].
    pub cut: bool,
    /// Number of files and directories that could not be read.
    #[serde(default)]
    pub skipped: u64,
}

/// A line that matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Match {
    /// The file's path, relative to the directory that was asked for; empty if that is the file itself.
    pub path: PathText,
    /// Number of the line, from 1.
    pub line: u64,
    /// Where the line begins in the file, in bytes.
    pub offset: u64,
    /// The line without its end. Of a long line, only the part around the first match.
    pub text: PathText,
}

/// The result of [`FileOp::RealPath`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Resolved {
    /// The absolute path, without links.
    pub path: PathText,
}
