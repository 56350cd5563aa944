//! Files: those that a job brings, and those that its code leaves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest path of a file, in bytes.
const MAX_PATH: usize = 1024;

/// A file that the code finds below `/workspace`. Its content is one of `text`, `base64` and `ref`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{ "required": ["text"] }, { "required": ["base64"] }, { "required": ["ref"] }]))]
pub struct InputFile {
    /// Where, relative to `/workspace`, of plain components: no `..`. Directories on the way are made.
    pub path: String,
    /// Its content, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub text: Option<String>,
    /// Its content, as base64 (the standard alphabet, with padding).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub base64: Option<String>,
    /// Its content, as something in the tenant's own part of the fleet's store: an artifact's `id`, or the key of an object there.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub reference: Option<String>,
    /// Mode 0755 in place of 0644.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
}

impl InputFile {
    /// A file with this text.
    pub fn text(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: Some(text.into()), base64: None, reference: None, executable: false }
    }

    /// Whether it has exactly one content.
    pub fn has_one_content(&self) -> bool {
        [&self.text, &self.base64, &self.reference].into_iter().flatten().count() == 1
    }

    /// Whether its path can be used.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn check_path(&self) -> Result<(), &'static str> {
        check_path(&self.path)
    }
}

/// Whether a path is relative, of plain components, and of a sane length.
///
/// # Errors
/// What is wrong with it, in words.
pub fn check_path(path: &str) -> Result<(), &'static str> {
    if path.is_empty() || path.len() > MAX_PATH {
        return Err("must have 1 to 1024 bytes");
    }
    if path.contains('\0') {
        return Err("must not hold a NUL");
    }
    if path.starts_with('/') {
        return Err("must be relative");
    }
    match path.split('/').find(|part| matches!(*part, "" | "." | "..") || part.len() > 255) {
        Some("..") => Err("must not hold \"..\""),
        Some("." | "") => Err("must not hold \".\", \"//\" or a slash at its end"),
        Some(_) => Err("must not hold a name of more than 255 bytes"),
        None => Ok(()),
    }
}

/// What a job wants of its artifacts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArtifactRequest {
    /// Put small ones into the outcome itself, too (`base64`), up to what the fleet allows for one outcome.
    #[serde(default)]
    pub inline: bool,
}

impl ArtifactRequest {
    /// Whether it asks for nothing.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A file that the code has left or changed in an artifacts directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Artifact {
    /// Its key in the tenant's part of the fleet's store: what `files[].ref` of a later job takes. Files of one content share it.
    pub id: String,
    /// Its path as the code knows it; bytes that are not UTF-8 are written `\xff` here and exact in `path_base64`.
    pub path: String,
    /// The exact bytes of the path, only where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// The last component of `path`.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256 of the content, in hexadecimal digits.
    pub sha256: String,
    /// Guessed from the name alone.
    pub media_type: String,
    /// When it was collected (RFC 3339).
    pub created_at: String,
    /// Somebody wrote it while it was read, which only a session's processes can: it may be a mixture.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changed: bool,
    /// Where it can be fetched with a GET, until `expires_at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// When `url` expires (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Its content, where the job asked for it and it is small.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

/// Something in an artifacts directory that was left out, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// Its path, as in [`Artifact::path`].
    pub path: String,
    /// As in [`Artifact::path_base64`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Its size in bytes, where it is a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Why.
    pub why: LeftOutWhy,
    /// The same for people and models.
    pub message: String,
}

/// Why something was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LeftOutWhy {
    /// A symbolic link.
    Link,
    /// A fifo, a socket or a device.
    Special,
    /// The pool's bound on files was reached.
    TooMany,
    /// Larger than what was left of the pool's bound on bytes.
    TooLarge,
    /// Its directory is too deep.
    TooDeep,
    /// The directory has more names than are looked at.
    TooManyEntries,
    /// It could not be read.
    Unreadable,
    /// The job was cancelled while its files were collected.
    CutShort,
    /// The fleet's store did not take it.
    NotStored,
    /// A reason newer than this reader.
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
        assert!(file(r#"{"path": "a", "text": ""}"#) && file(r#"{"path": "a", "ref": "x"}"#));
        assert!(!file(r#"{"path": "a"}"#) && !file(r#"{"path": "a", "text": "", "base64": ""}"#));
        assert!(serde_json::from_str::<InputFile>(r#"{"path": "a", "text": "", "mode": 7}"#).is_err());
    }
}
