//! Reads JSON in the one way that leaves no doubt about what it says.
//!
//! JSON readers differ: of a key that stands twice, some keep the first value and some the last. An integer of more
//! than 64 bits is rounded by some. If the one who checks and the one who acts read the same text differently, the
//! check is worth nothing. So such texts are refused.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::DEEPEST;
use crate::exact::numbers;
use crate::refusal::quote;

/// Why a text can't be read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It is not JSON, has a key twice, or is nested too deeply.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// It has an integer of more than 64 bits, which not every reader keeps exactly.
    #[error("the integer {0} has more than 64 bits; send it as a string")]
    Integer(String),
}

/// Reads a text of which every JSON reader makes the same value. Numbers with a fraction or an exponent are read as
/// 64-bit floats.
///
/// # Errors
/// The text is not JSON, has a key twice in one object, an integer below -2^63 or above 2^64 - 1, a number beyond the
/// largest float, or more than [`DEEPEST`] levels.
pub(crate) fn read(text: &str) -> Result<Value, Unreadable> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Strict { depth: 0 }.deserialize(&mut reader)?;
    reader.end()?;
    match large_integer(text) {
        Some(digits) => Err(Unreadable::Integer(quote(digits))),
        None => Ok(value),
    }
}

/// The first integer below -2^63 or above 2^64 - 1 in a text that is JSON, as it is written. A tree rounds it.
fn large_integer(text: &str) -> Option<&str> {
    let mut integers = numbers(text).filter(|number| !number.contains(['.', 'e', 'E']));
    integers.find(|digits| digits.parse::<i64>().is_err() && digits.parse::<u64>().is_err())
}

/// Reads a value at this depth.
struct Strict {
    depth: usize,
}

impl Strict {
    fn below<E: Error>(&self) -> Result<Self, E> {
        if self.depth == DEEPEST {
            return Err(E::custom(format!("nested deeper than {DEEPEST} levels")));
        }
        Ok(Self { depth: self.depth + 1 })
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        let number = serde_json::Number::from_f64(value).ok_or_else(|| E::custom("a number is not finite"))?;
        Ok(Value::Number(number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self.below()?)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom(format!("the key {} stands twice", quote(&format!("{key:?}")))));
            }
            let value = map.next_value_seed(self.below()?)?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_has_one_reading_is_read() {
        for (text, value) in [
            (r#"{"a": [1, -2, 1.5, "x", null, true], "b": {}}"#, json!({"a": [1, -2, 1.5, "x", null, true], "b": {}})),
            (r#"{"a": {"k": 1}, "b": {"k": 1}}"#, json!({"a": {"k": 1}, "b": {"k": 1}})),
            ("18446744073709551615", json!(u64::MAX)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("1e30", json!(1e30)),
            (r#""18446744073709551616""#, json!("18446744073709551616")),
            (r#""\\\" 18446744073709551616 \\""#, json!("\\\" 18446744073709551616 \\")),
        ] {
            assert_eq!(read(text).unwrap(), value, "{text}");
        }
    }

    #[test]
    fn what_has_several_readings_is_refused() {
        for (text, why) in [
            (r#"{"a": 1, "a": 1}"#, "stands twice"),
            (r#"{"a": 1, "\u0061": 2}"#, "stands twice"),
            (r#"[[{"b": {"a": 1, "c": 0, "a": 2}}]]"#, "stands twice"),
            ("18446744073709551616", "more than 64 bits"),
            (r#"{"a\\": [1, -9223372036854775809]}"#, "more than 64 bits"),
            ("1e400", "out of range"),
            ("NaN", "expected"),
            ("1 2", "trailing"),
            ("", "EOF"),
            (r#""\ud800""#, "hex escape"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(read(&nested(DEEPEST)).is_ok());
        for depth in [DEEPEST + 2, 127, 128, 1_000_000] {
            assert!(read(&nested(depth)).is_err(), "{depth}");
        }
    }
}
