//! Files of jobs: the input files that a job brings, and the artifacts that its code leaves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::optional::{nullable, or_default};
use crate::{ArtifactId, Content};

/// Longest path of a file, in bytes.
const MAX_PATH: usize = 1024;

/// A file that is written below `/workspace` before the code starts. Exactly one of `text`, `base64` and `ref` gives
/// its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "InputFile", deny_unknown_fields, expecting = "an object with `path`")]
#[schemars(extend("oneOf" = [
    { "required": ["text"], "properties": { "text": { "type": "string" } } },
    { "required": ["base64"], "properties": { "base64": { "type": "string" } } },
    { "required": ["ref"], "properties": { "ref": { "type": "string" } } },
]))]
#[schemars(transform = nullable)]
pub struct InputFile {
    /// Path of the file, relative to `/workspace`: 1 to 1024 bytes, with plain components only (no `..`). Missing
    /// directories are made.
    pub path: String,
    /// The content as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The content in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<Content>,
    /// The content as a reference into the tenant's own part of the fleet's store: the `id` of an artifact.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<ArtifactId>,
    /// Whether the file gets mode 0755 instead of 0644.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
}

impl InputFile {
    /// A file with this text as its content.
    pub fn text(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: Some(text.into()), base64: None, reference: None, executable: false }
    }

    /// Whether exactly one of the three kinds of content is set.
    pub fn has_one_content(&self) -> bool {
        [self.text.is_some(), self.base64.is_some(), self.reference.is_some()].into_iter().filter(|set| *set).count()
            == 1
    }

    /// Checks that the path can be used; see [`check_path`].
    ///
    /// # Errors
    /// What is wrong with the path, in words for the client.
    pub fn check_path(&self) -> Result<(), &'static str> {
        check_path(&self.path)
    }
}

/// Checks that a path is relative, has plain components only, and is not too long.
///
/// # Errors
/// What is wrong with the path, in words for the client.
pub fn check_path(path: &str) -> Result<(), &'static str> {
    if path.is_empty() || path.len() > MAX_PATH {
        return Err("must have 1 to 1024 bytes");
    }
    if path.contains('\0') {
        return Err("must not contain a NUL");
    }
    if path.starts_with('/') {
        return Err("must be relative");
    }
    match path.split('/').find(|part| matches!(*part, "" | "." | "..") || part.len() > 255) {
        Some("..") => Err("must not contain \"..\""),
        Some("." | "") => Err("must not contain \".\" or \"//\", or end with a slash"),
        Some(_) => Err("must not contain a name of more than 255 bytes"),
        None => Ok(()),
    }
}

/// How the client wants the job's artifacts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "ArtifactRequest", deny_unknown_fields, expecting = "an object with `inline`")]
#[schemars(transform = nullable)]
pub struct ArtifactRequest {
    /// Whether the outcome itself also has the content of small artifacts (`base64`), as many as the fleet allows for
    /// one outcome (1 MiB together by default).
    #[serde(default, deserialize_with = "or_default")]
    pub inline: bool,
}

impl ArtifactRequest {
    /// Whether every field has its default, so that the whole object can be left out.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A new or changed file that the code left in an artifacts directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Artifact {
    /// Name of the file in the tenant's part of the fleet's store. A later job can name it as `files[].ref`. Files with
    /// the same content have the same id.
    pub id: String,
    /// Path of the file, as the code sees it. Bytes that are not UTF-8 are written as `\xff` here; `path_base64` has
    /// the exact path.
    pub path: String,
    /// The exact path in base64, only if the path is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// The last component of `path`.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 of the content, in hexadecimal digits.
    pub sha256: String,
    /// Media type, guessed from the name alone.
    pub media_type: String,
    /// When the file was collected (RFC 3339).
    pub created_at: String,
    /// Whether something wrote to the file while it was read, so that the content may be a mixture. This can happen
    /// only in a session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changed: bool,
    /// URL from which anybody can fetch the file with a GET, until `expires_at`. Missing if nothing serves the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// When `url` expires (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// The content in base64, if the job asked for it (`artifacts.inline`) and it is small enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

/// Something in an artifacts directory that is not among the artifacts, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// Path, as in an artifact's `path`.
    pub path: String,
    /// The exact path in base64, only if the path is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Size in bytes, if it is a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The reason, for programs.
    pub why: LeftOutWhy,
    /// The reason, for people and models.
    pub message: String,
}

/// Why something is not among the artifacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LeftOutWhy {
    /// It is a symbolic link, or lies behind one. Links are never followed.
    Link,
    /// It is a fifo, a socket or a device.
    Special,
    /// There are more files than the pool allows (`artifacts.max_files`).
    TooMany,
    /// With this file, the artifacts would have more bytes than the pool allows (`artifacts.max_bytes`).
    TooLarge,
    /// Its directory is nested too deeply.
    TooDeep,
    /// There are too many names. The rest was not looked at.
    TooManyEntries,
    /// It could not be read.
    Unreadable,
    /// The job was cancelled while its files were collected. Nothing after this file was collected.
    CutShort,
    /// The fleet's store did not accept it.
    NotStored,
    /// A reason that the reader does not know, because a newer release sent it.
    #[serde(other)]
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_relative_paths_are_paths() {
        for good in ["a", "a/b.csv", "…/é", "a b", "-", "..a", "a..b/c", &"x".repeat(255)] {
            assert_eq!(check_path(good), Ok(()), "{good}");
        }
        let long = "x".repeat(256);
        for bad in
            ["", "/", "/a", "..", "a/..", "../a", "a/../b", ".", "./a", "a//b", "a/", "a\0b", &long, &"x/".repeat(600)]
        {
            assert!(check_path(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_file_has_one_content() {
        let file = |json: &str| serde_json::from_str::<InputFile>(json).unwrap().has_one_content();
        let by_id = format!(r#"{{"path": "a", "ref": "{}"}}"#, "0".repeat(64));
        assert!(file(r#"{"path": "a", "text": ""}"#) && file(&by_id));
        assert!(!file(r#"{"path": "a"}"#) && !file(r#"{"path": "a", "text": "", "base64": ""}"#));
        assert!(serde_json::from_str::<InputFile>(r#"{"path": "a", "text": "", "mode": 7}"#).is_err());
    }
}
