//! Bytes in messages: content in base64, and paths.

use std::fmt;
use std::ops::Deref;

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes of content. In JSON, they are a string in base64, in its one form: the standard alphabet, with padding, without
/// line breaks.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Content(bytes::Bytes);

impl Content {
    /// The texts that are read, as a regular expression. The bits that say nothing are zero.
    pub const PATTERN: &str = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$";

    /// Why no other text is read, in words for the client.
    pub const FORM: &str = "is not base64: it has the letters A-Z and a-z, the digits, + and /, with = at the end until \
                            its length is a multiple of 4, and no line breaks or spaces";

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<bytes::Bytes> for Content {
    fn from(content: bytes::Bytes) -> Self {
        Self(content)
    }
}

impl From<Vec<u8>> for Content {
    fn from(content: Vec<u8>) -> Self {
        Self(content.into())
    }
}

impl From<Content> for bytes::Bytes {
    fn from(content: Content) -> Self {
        content.0
    }
}

impl Deref for Content {
    type Target = bytes::Bytes;

    fn deref(&self) -> &bytes::Bytes {
        &self.0
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Content;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string in base64")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Content, E> {
                STANDARD.decode(text).map(Content::from).map_err(|error| match error {
                    DecodeError::InvalidByte(at, byte) if byte.is_ascii() => {
                        E::custom(format_args!("{} (there is {:?} at {at})", Content::FORM, char::from(byte)))
                    }
                    _ => E::custom(Content::FORM),
                })
            }
        }
        deserializer.deserialize_str(Text)
    }
}

impl JsonSchema for Content {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Content".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Bytes in base64: the standard alphabet, with padding, without line breaks.",
            "type": "string",
            "contentEncoding": "base64",
            "pattern": Self::PATTERN,
        })
    }
}

/// A path or another text of the kernel, which need not be UTF-8. In JSON, it is a string, or a list of bytes if it is
/// not UTF-8.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathText(pub Vec<u8>);

impl<T: Into<Vec<u8>>> From<T> for PathText {
    fn from(path: T) -> Self {
        Self(path.into())
    }
}

impl fmt::Debug for PathText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(&self.0), f)
    }
}

impl Serialize for PathText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => self.0.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for PathText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrBytes;
        impl<'de> Visitor<'de> for TextOrBytes {
            type Value = PathText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of bytes")
            }

            fn visit_str<E>(self, text: &str) -> Result<PathText, E> {
                Ok(text.into())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<PathText, A::Error> {
                let mut bytes = Vec::new();
                while let Some(byte) = list.next_element()? {
                    bytes.push(byte);
                }
                Ok(PathText(bytes))
            }
        }
        deserializer.deserialize_any(TextOrBytes)
    }
}

impl JsonSchema for PathText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PathText".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A path: a string, or a list of bytes if it is not UTF-8.",
            "anyOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": "integer", "minimum": 0, "maximum": 255 } },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Content, String> {
        serde_json::from_value(text.into()).map_err(|error| error.to_string())
    }

    #[test]
    fn base64_has_one_form() {
        for (good, bytes) in [("", &b""[..]), ("AA==", b"\0"), ("AP8=", b"\0\xff"), ("+/+/", b"\xfb\xff\xbf")] {
            assert_eq!(&read(good).unwrap()[..], bytes, "{good}");
        }
        for (bad, says) in [
            ("AAAA\nAAAA\n", r"there is '\n' at 4"),
            ("AAAA\n", r"there is '\n' at 4"),
            ("AAAA\r\n", r"there is '\r' at 4"),
            (" AAAA", "there is ' ' at 0"),
            ("AP8", Content::FORM),
            ("AA", Content::FORM),
            ("A", Content::FORM),
            ("AA=", Content::FORM),
            ("AA===", Content::FORM),
            ("====", Content::FORM),
            ("AA==AA==", Content::FORM),
            ("AB==", Content::FORM),
            ("-_-_", "there is '-' at 0"),
            ("é", Content::FORM),
        ] {
            let error = read(bad).unwrap_err();
            assert!(error.contains(says), "{bad:?}: {error}");
        }
    }

    proptest! {
        /// The pattern that clients read says what is read.
        #[test]
        fn the_pattern_is_the_rule(text in "[A-Za-h+/=_\n-]{0,9}|([A-Za-z0-9+/]{4}){0,2}[A-Zw]{1,3}={0,2}") {
            let pattern = regex::Regex::new(Content::PATTERN).unwrap();
            prop_assert_eq!(read(&text).is_ok(), pattern.is_match(&text));
        }

        #[test]
        fn what_is_written_is_read(bytes: Vec<u8>) {
            let content = Content::from(bytes);
            let text = serde_json::to_string(&content).unwrap();
            prop_assert_eq!(serde_json::from_str::<Content>(&text).unwrap(), content);
        }
    }
}
