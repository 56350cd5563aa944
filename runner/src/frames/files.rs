//! Frames of files: those that a run is to find, and those that it leaves.
//!
//! ```text
//! worker ── Input, InputData… (each file) ── Run ──▶ runner
//! worker ◀── (each file) Artifact, ArtifactData…, ArtifactEnd ── Exit ── runner
//! ```

use serde::{Deserialize, Serialize};

/// A file that a run is to find. Its bytes follow as [`super::Kind::InputData`] of the same run, up to the next file or the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// Where, below its place: relative, of plain components.
    pub path: String,
    /// Below `/session` in place of `/workspace`.
    #[serde(default)]
    pub session: bool,
    /// Mode 0755 in place of 0644.
    #[serde(default)]
    pub executable: bool,
    /// Bytes that follow.
    pub size: u64,
}

/// How much is collected of what a run leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactLimits {
    /// Files of one run.
    pub files: u32,
    /// Bytes of one run.
    pub bytes: u64,
    /// Names that are looked at, directories and what is left out included.
    pub entries: u32,
    /// Directories below each other.
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
    /// Its absolute path as the code knows it, byte for byte.
    pub path: Vec<u8>,
    /// Bytes that it had when it was opened; no more follow, and fewer where it shrank meanwhile.
    pub size: u64,
    /// Whether its owner may run it.
    pub executable: bool,
}

/// The end of an artifact's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactEnd {
    /// Somebody wrote it while it was read: what was sent may be a mixture.
    pub changed: bool,
}

/// Why something below an artifacts directory was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// A symbolic link: none is ever followed.
    Link,
    /// A fifo, a socket or a device.
    Special,
    /// The files that may be sent were used up.
    TooMany,
    /// It is larger than what was left of the bytes that may be sent.
    TooLarge,
    /// Its directory is too deep to be looked into.
    TooDeep,
    /// The names that are looked at were used up here; what follows was not looked at.
    TooManyEntries,
    /// It could not be read.
    Unreadable,
    /// The run was killed while its files were collected.
    CutShort,
}

/// Something that was not sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Omission {
    /// Its absolute path as the code knows it, byte for byte.
    pub path: Vec<u8>,
    /// Why.
    pub why: Why,
    /// Its size in bytes, where it is a file.
    #[serde(default)]
    pub size: Option<u64>,
}

/// All that was not sent of a run's files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Omissions {
    /// The first of them.
    pub list: Vec<Omission>,
    /// How many more.
    pub more: u64,
}

impl Omissions {
    /// Omissions that are told one by one.
    pub const LISTED: usize = 64;

    /// Adds one.
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
