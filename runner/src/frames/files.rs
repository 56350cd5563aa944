//! Frames for files: the inputs that a run finds in its sandbox, and the artifacts that it leaves.
//!
//! ```text
//! worker ── Input, InputData… (each file) ── Run ──▶ runner
//! worker ◀── (each file) Artifact, ArtifactData…, ArtifactEnd ── Exit ── runner
//! ```

use serde::{Deserialize, Serialize};

/// A file that is written into the sandbox before the code starts. Its bytes follow as [`super::Kind::InputData`] with
/// the same run number, until the next [`super::Kind::Input`] or the [`super::Kind::Run`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// Relative path below `/workspace` (or `/session`), without `.`, `..` and empty components.
    pub path: String,
    /// Whether the path is below `/session` rather than `/workspace`.
    #[serde(default)]
    pub session: bool,
    /// Whether the mode is 0755 rather than 0644.
    #[serde(default)]
    pub executable: bool,
    /// Number of bytes that follow.
    pub size: u64,
}

/// Bounds on the files that are collected from a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactLimits {
    /// Most files of one run. With 0, a run's files are not collected.
    pub files: u32,
    /// Most bytes of one run's files together.
    pub bytes: u64,
    /// Most directory entries that are looked at, including directories and what is left out.
    pub entries: u32,
    /// Most directories below each other, the artifacts directory included.
    pub depth: u32,
}

impl Default for ArtifactLimits {
    fn default() -> Self {
        Self { files: 256, bytes: 64 << 20, entries: 10_000, depth: 16 }
    }
}

/// A file that a run has left or changed. Its bytes follow as [`super::Kind::ArtifactData`], then [`ArtifactEnd`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Its absolute path inside the sandbox, byte for byte.
    pub path: Vec<u8>,
    /// Its size in bytes when it was opened. No more bytes follow, and fewer if the file shrank meanwhile.
    pub size: u64,
}

/// The end of an artifact's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactEnd {
    /// Whether the file changed while it was read: what was sent may mix old and new bytes.
    pub changed: bool,
}

/// Why a file or directory was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It is a symbolic link (these are never followed), or something else in the place of a directory.
    Link,
    /// It is a FIFO, a socket or a device, or lies on another file system.
    Special,
    /// [`ArtifactLimits::files`] files were sent already.
    TooMany,
    /// It is larger than what was left of [`ArtifactLimits::bytes`].
    TooLarge,
    /// It is a directory deeper than [`ArtifactLimits::depth`], and was not looked into.
    TooDeep,
    /// [`ArtifactLimits::entries`] was reached in this directory; the rest of it was not looked at.
    TooManyEntries,
    /// It could not be read.
    Unreadable,
    /// The run was killed while its files were collected.
    CutShort,
}

/// A file or directory that was not sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Omission {
    /// Its absolute path inside the sandbox, byte for byte.
    pub path: Vec<u8>,
    /// The reason.
    pub why: Why,
    /// Its size in bytes, for a file that exceeds a limit.
    #[serde(default)]
    pub size: Option<u64>,
}

/// Everything that was not sent of a run's files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Omissions {
    /// The first [`Omissions::LISTED`] omissions.
    pub list: Vec<Omission>,
    /// How many more there are.
    pub more: u64,
}

impl Omissions {
    /// Most omissions that are listed one by one.
    pub const LISTED: usize = 64;

    /// Adds an omission to the list, or counts it once the list is full.
    pub fn add(&mut self, path: Vec<u8>, why: Why, size: Option<u64>) {
        if self.list.len() < Self::LISTED {
            self.list.push(Omission { path, why, size });
        } else {
            self.more += 1;
        }
    }

    /// Whether nothing was left out.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}
