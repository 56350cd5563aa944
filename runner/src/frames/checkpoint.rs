//! Frames for checkpoints: everything that a session has in `/workspace` and `/session`.
//!
//! ```text
//! worker ── Checkpoint ──▶ runner                          takes one
//! worker ◀── (each) Part, PartData… ── Exit ── runner
//!
//! worker ── (each) Part, PartData… ── Run ──▶ runner       begins a session with one
//! ```

use serde::{Deserialize, Serialize};

use super::ByteString;

/// Asks for everything that a session without a run has in `/workspace` and `/session`. The session's processes live on
/// meanwhile. If a limit is exceeded, the end is [`super::End::Failed`], and what was sent is worth nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The session's name.
    pub session: String,
    /// Most files, directories and links together.
    pub parts: u32,
    /// Most bytes of files together.
    pub bytes: u64,
}

impl Checkpoint {
    /// Most directories below each other. Each takes a descriptor of the runner while it is read.
    pub const DEPTH: usize = 64;
}

/// A file, directory or symbolic link. The bytes of a file follow. A directory comes before everything in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its absolute path inside the sandbox, below `/workspace` or `/session`.
    pub path: ByteString,
    /// What it is.
    #[serde(flatten)]
    pub kind: PartKind,
}

/// What a [`Part`] is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum PartKind {
    /// A regular file.
    File {
        /// Its permission bits, at most 0777: nothing else of a mode is kept.
        mode: u32,
    },
    /// A directory.
    Directory {
        /// Its permission bits, as those of a file.
        mode: u32,
    },
    /// A symbolic link.
    Link {
        /// Its text.
        target: ByteString,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_need_not_be_text() {
        let part =
            Part { path: b"/session/\xff".to_vec().into(), kind: PartKind::Link { target: b"\xfe".to_vec().into() } };
        let json = serde_json::to_string(&part).unwrap();
        assert_eq!(serde_json::from_str::<Part>(&json).unwrap(), part, "{json}");
    }
}
