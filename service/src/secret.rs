//! Passwords, keys, and URLs that may contain one.
//!
//! A [`Secret`] is shown only through [`Secret::expose`], never in logs, errors or debug output. In a configuration,
//! each key of this type can also be given as a file: `amqp_file = "/run/secrets/amqp"` replaces `amqp = "…"` (see
//! [`crate::config`]).

use std::path::{Path, PathBuf};
use std::{fmt, io};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The `format` in a JSON Schema that tells the loader of configurations that a key is a secret.
pub const FORMAT: &str = "password";

/// Largest size of a file with a secret, in bytes.
const LONGEST: u64 = 64 * 1024;

/// Why a file can't be used as a secret. This never contains anything from the file.
#[derive(Debug, thiserror::Error)]
#[error("the file {} {why}", path.display())]
pub struct Error {
    path: PathBuf,
    why: Why,
}

#[derive(Debug, thiserror::Error)]
enum Why {
    #[error("can't be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error("has {0} bytes, which is too long for a password or key")]
    TooLong(u64),
    #[error("is not UTF-8 text")]
    NotText,
    #[error("is empty")]
    Empty,
}

/// A text that must not be shown.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// The text itself. The caller must not show it to anybody.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Reads a secret from a file. A line break at the end is not part of the secret.
    ///
    /// # Errors
    /// The file can't be read, is empty or too long, or is not UTF-8. The message names the file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        read(path).map(Self).map_err(|why| Error { path: path.to_owned(), why })
    }
}

fn read(path: &Path) -> Result<String, Why> {
    let length = std::fs::metadata(path)?.len();
    if length > LONGEST {
        return Err(Why::TooLong(length));
    }
    let text = String::from_utf8(std::fs::read(path)?).map_err(|_| Why::NotText)?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.is_empty() { Err(Why::Empty) } else { Ok(text.to_owned()) }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "Secret(empty)" } else { "Secret(…)" })
    }
}

impl JsonSchema for Secret {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": FORMAT })
    }
}

/// Whether a URL contains a password, like `amqp://user:password@host`.
pub fn has_password(url: &str) -> bool {
    let authority = url.split_once("://").map(|(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or_default());
    let user = authority.and_then(|authority| authority.rsplit_once('@')).map(|(user, _)| user);
    user.is_some_and(|user| user.split_once(':').is_some_and(|(_, password)| !password.is_empty()))
}

/// Whether this URL contains a password and is one of this process's arguments, which every user of the machine can
/// read.
pub fn is_shown_in_arguments(url: &str) -> bool {
    has_password(url) && holds(std::env::args_os().filter_map(|argument| argument.into_string().ok()), url)
}

fn holds(mut arguments: impl Iterator<Item = String>, url: &str) -> bool {
    arguments.any(|argument| argument == url || argument.split_once('=').is_some_and(|(_, value)| value == url))
}

/// The warning about such an argument, with what to do instead.
pub fn argument_warning(option: &str) -> String {
    let name = option.to_ascii_uppercase().replace('-', "_");
    format!(
        "the URL of --{option} holds a password, and every user of this machine can read the arguments of a process: \
         set THERMAE_{name} in the environment, or name a file that holds the URL with THERMAE_{name}_FILE"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        let secret = Secret::from("hunter2");
        assert!(!format!("{secret:?} {:?}", Some(&secret)).contains("hunter2"));
        assert_eq!(secret.expose(), "hunter2");
    }

    #[test]
    fn a_file_is_read_without_its_last_line_break() {
        let dir = tempfile::tempdir().unwrap();
        let file = |text: &[u8]| {
            let path = dir.path().join("secret");
            std::fs::write(&path, text).unwrap();
            Secret::read(&path)
        };
        for text in ["hunter2", "hunter2\n", "hunter2\r\n"] {
            assert_eq!(file(text.as_bytes()).unwrap().expose(), "hunter2");
        }
        assert_eq!(file(b" a b \n\n").unwrap().expose(), " a b \n");
        for (text, word) in [(&b""[..], "empty"), (b"\n", "empty"), (b"\xff", "UTF-8"), (&[b'x'; 70_000], "bytes")] {
            let why = file(text).unwrap_err().to_string();
            assert!(why.contains(word) && why.contains("secret"), "{why}");
        }
        assert!(Secret::read(&dir.path().join("missing")).unwrap_err().to_string().contains("missing"));
    }

    #[test]
    fn a_password_in_an_argument_is_seen() {
        for (url, has) in [
            ("amqp://acme:secret@fleet:5672", true),
            ("redis://:secret@fleet/0", true),
            ("amqp://acme@fleet", false),
            ("amqp://acme:@fleet", false),
            ("amqp://fleet:5672/a:b@c", false),
            ("fleet", false),
        ] {
            assert_eq!(has_password(url), has, "{url}");
        }
        let url = "amqp://a:b@c";
        let among = |arguments: &[&str]| holds(arguments.iter().map(ToString::to_string), url);
        assert!(among(&["thermae", "--amqp", url]) && among(&["thermae", "--amqp=amqp://a:b@c"]));
        assert!(!among(&["thermae", "--amqp", "amqp://c"]));
        assert!(argument_warning("amqp").contains("THERMAE_AMQP_FILE"));
    }
}
