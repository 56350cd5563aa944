//! Inputs: JSON values that a job's code finds under names of their own.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{DeserializeOwned, Error as _, Expected, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use thermae_capabilities::Tree;

use crate::ArtifactId;
use crate::alias::is_keyword;

/// Most characters of an input's name.
const MAX_NAME: usize = 128;

/// Where the value of an input comes from. Exactly one of `value` and `ref`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InputValue {
    /// The value itself: any JSON.
    Value(JsonText),
    /// The value as a reference into the tenant's own part of the fleet's store: the `id` of an artifact. Its content
    /// must be JSON, in UTF-8.
    Ref(ArtifactId),
}

/// By hand: who gives the value itself is told what belongs around it.
impl<'de> Deserialize<'de> for InputValue {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct OneField;

        impl<'de> Visitor<'de> for OneField {
            type Value = InputValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with either `value` (any JSON) or `ref` (the id of an artifact)")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<InputValue, A::Error> {
                let read = match fields.next_key::<Cow<'de, str>>()?.as_deref() {
                    Some("value") => InputValue::Value(fields.next_value()?),
                    Some("ref") => InputValue::Ref(fields.next_value()?),
                    Some(other) => return Err(A::Error::unknown_field(other, &["value", "ref"])),
                    None => return Err(A::Error::custom(format_args!("expected {}", &self as &dyn Expected))),
                };
                match fields.next_key::<Cow<'de, str>>()? {
                    None => Ok(read),
                    Some(_) => Err(A::Error::custom(format_args!("expected {}", &self as &dyn Expected))),
                }
            }
        }

        reader.deserialize_map(OneField)
    }
}

/// Any JSON, kept as the text that it was written as. The order of keys and the digits of numbers stay as they are.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JsonText(Box<RawValue>);

impl JsonText {
    /// Takes a text.
    ///
    /// # Errors
    /// The text is not JSON.
    pub fn new(text: String) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text).map(Self)
    }

    /// The text.
    pub fn raw(&self) -> &RawValue {
        &self.0
    }

    /// The text, without a copy.
    pub fn into_raw(self) -> Box<RawValue> {
        self.0
    }

    /// Reads the value. A tree of it ([`serde_json::Value`]) rounds integers of more than 64 bits, sorts keys, and can
    /// take a hundred times the memory of the text.
    ///
    /// # Errors
    /// The value is not of this type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.0.get())
    }
}

/// The value in one line, for people: numbers as they were written, keys in alphabetical order, and texts with as few
/// escapes as possible. Whoever writes a text chooses how it looks; not so here.
impl fmt::Display for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Tree::read(self.0.get()) {
            Ok(tree) => tree.fmt(f),
            Err(_) => f.write_str(self.0.get()),
        }
    }
}

/// Any JSON.
impl JsonSchema for JsonText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        serde_json::Value::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        serde_json::Value::json_schema(generator)
    }
}

impl PartialEq for JsonText {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

impl From<Box<RawValue>> for JsonText {
    fn from(text: Box<RawValue>) -> Self {
        Self(text)
    }
}

impl From<&serde_json::Value> for JsonText {
    fn from(value: &serde_json::Value) -> Self {
        Self(serde_json::value::to_raw_value(value).unwrap_or_else(|_| unreachable!("a tree is always JSON")))
    }
}

impl From<serde_json::Value> for JsonText {
    fn from(value: serde_json::Value) -> Self {
        Self::from(&value)
    }
}

/// Why a name can't be the name of an input. The text continues a sentence that begins with the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameTrouble {
    /// It is empty, too long, or has characters that are not allowed.
    #[error("is not an identifier: a letter (a-z) or `_`, then letters, digits and `_`, at most {MAX_NAME} in all")]
    NotIdentifier,
    /// It is a keyword of Python.
    #[error("is a keyword of Python")]
    Keyword,
    /// Python uses such names itself.
    #[error("begins with two underscores; Python uses such names itself")]
    Reserved,
}

/// Says why the code could not find an input under this name. `None` if it can.
///
/// Letters outside of ASCII are refused, because Python normalizes the names in a program (NFKC), so that some of them
/// would never be found.
pub fn name_trouble(name: &str) -> Option<NameTrouble> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let fits = (1..=MAX_NAME).contains(&name.len()) && name.chars().all(word);
    match () {
        () if !fits || name.starts_with(|c: char| c.is_ascii_digit()) => Some(NameTrouble::NotIdentifier),
        () if is_keyword(name) => Some(NameTrouble::Keyword),
        () if name.starts_with("__") => Some(NameTrouble::Reserved),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_an_identifier() {
        for good in ["x", "_", "_x1", "Rows", "match", "print", &"a".repeat(MAX_NAME)] {
            assert_eq!(name_trouble(good), None, "{good}");
        }
        for (bad, why) in [
            ("", NameTrouble::NotIdentifier),
            ("1x", NameTrouble::NotIdentifier),
            ("a b", NameTrouble::NotIdentifier),
            ("a.b", NameTrouble::NotIdentifier),
            ("größe", NameTrouble::NotIdentifier),
            ("x\n", NameTrouble::NotIdentifier),
            (&"a".repeat(MAX_NAME + 1), NameTrouble::NotIdentifier),
            ("class", NameTrouble::Keyword),
            ("None", NameTrouble::Keyword),
            ("__builtins__", NameTrouble::Reserved),
        ] {
            assert_eq!(name_trouble(bad), Some(why), "{bad:?}");
        }
    }

    #[test]
    fn a_value_stays_as_it_was_written() {
        let text = r#"{"value":{"b": 1, "a": 123456789012345678901234567890}}"#;
        let read: InputValue = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }

    #[test]
    fn a_value_may_be_null() {
        let read = |text: &str| serde_json::from_str::<InputValue>(text);
        let null = JsonText::new("null".into()).unwrap();
        assert_eq!(read(r#"{"value": null}"#).unwrap(), InputValue::Value(null));
        let id = ArtifactId::new("0".repeat(64)).unwrap();
        assert_eq!(read(&format!(r#"{{"ref": "{id}"}}"#)).unwrap(), InputValue::Ref(id));
        for bad in [r#"{}"#, r#"{"value": 1, "ref": "a"}"#, r#"{"value": 1, "x": 1}"#, "3", "null", "[1]", r#""a""#] {
            let why = read(bad).unwrap_err().to_string();
            assert!(why.contains("expected an object with either `value` (any JSON) or `ref`"), "{bad}: {why}");
        }
        for bad in [r#"{"ref": "a"}"#, r#"{"values": 1}"#, r#"{"value": }"#] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
