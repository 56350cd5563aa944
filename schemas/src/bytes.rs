//! Bytes in messages: content in base64, and paths.

use std::fmt;
use std::ops::Deref;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes of content. In JSON, they are a string in base64 (the standard alphabet, with padding).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Content(bytes::Bytes);

impl Content {
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
                STANDARD.decode(text).map(Content::from).map_err(E::custom)
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
            "description": "Bytes in base64 (the standard alphabet, with padding).",
            "type": "string",
            "contentEncoding": "base64",
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
