//! Amounts of memory and data.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{ParseError, scale, split};

const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// An amount of memory or data: `"256MiB"`, `"1.5 GiB"`, `"10MB"` or `"7B"`. `K`, `M`, `G` and `T` without more are
/// powers of 1024, as is usual for containers. In a configuration (but not on a command line), a plain number is one of
/// bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

impl ByteSize {
    /// This many bytes.
    pub const fn bytes(n: u64) -> Self {
        Self(n)
    }

    /// This many KiB.
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    /// This many MiB.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// This many GiB.
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }

    /// The amount in bytes.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl FromStr for ByteSize {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::read(text, false)
    }
}

impl ByteSize {
    fn read(text: &str, bare: bool) -> Result<Self, ParseError> {
        let (number, unit) = split(text);
        let factor = match unit.to_ascii_lowercase().as_str() {
            "" if bare => Some(1),
            "b" => Some(1),
            "k" | "kib" => Some(1 << 10),
            "m" | "mib" => Some(1 << 20),
            "g" | "gib" => Some(1 << 30),
            "t" | "tib" => Some(1 << 40),
            "kb" => Some(1_000),
            "mb" => Some(1_000_000),
            "gb" => Some(1_000_000_000),
            "tb" => Some(1_000_000_000_000),
            _ => None,
        };
        if unit.is_empty()
            && !bare
            && let Some(number) = scale(number, 1)
        {
            // Few people mean so few bytes.
            let unit = if number < 1 << 16 { "MiB" } else { "B" };
            let (text, units) = (text.trim().to_owned(), "B, KiB, MiB and GiB");
            return Err(ParseError::NoUnit { text, unit, units });
        }
        factor.and_then(|factor| scale(number, factor)).map(Self).ok_or_else(|| ParseError::Malformed {
            text: text.to_owned(),
            what: if bare { "an amount like \"256MiB\" or a number of bytes" } else { "an amount like \"256MiB\"" },
        })
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().find(|(_, factor)| self.0 >= *factor && self.0.is_multiple_of(*factor));
        match unit {
            Some((unit, factor)) => f.pad(&format!("{}{unit}", self.0 / factor)),
            None => f.pad(&format!("{}B", self.0)),
        }
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = ByteSize;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an amount like \"256MiB\" or a number of bytes")
            }
            fn visit_u64<E: de::Error>(self, n: u64) -> Result<ByteSize, E> {
                Ok(ByteSize(n))
            }
            fn visit_i64<E: de::Error>(self, n: i64) -> Result<ByteSize, E> {
                u64::try_from(n).map(ByteSize).map_err(|_| E::invalid_value(de::Unexpected::Signed(n), &self))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<ByteSize, E> {
                ByteSize::read(text, true).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for ByteSize {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "ByteSize".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "oneOf": [
                { "type": "string", "pattern": r"^[0-9_.]+ ?([KMGT](i?B)?|B)?$" },
                { "type": "integer", "minimum": 0 },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("256MiB", 256 << 20),
            ("256m", 256 << 20),
            ("1.5 GiB", 3 << 29),
            ("10MB", 10_000_000),
            ("1_000b", 1000),
            ("0B", 0),
            ("7b", 7),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for (bare, meant) in [("256", "256MiB"), ("0", "0MiB"), ("67108864", "67108864B"), (" 7 ", "7MiB")] {
            let error = bare.parse::<ByteSize>().unwrap_err().to_string();
            assert!(error.contains(&format!("has no unit: write {meant}, or another unit of B, KiB")), "{error}");
        }
        let of_configuration = |value: serde_json::Value| serde_json::from_value::<ByteSize>(value).unwrap();
        assert_eq!(of_configuration("250".into()), ByteSize(250));
        assert_eq!(of_configuration(250.into()), ByteSize(250));
        for bad in ["", "MiB", "1.2.3M", "-1", "1 parsec", "99999999999999999999", "9999999999TiB"] {
            assert!(bad.parse::<ByteSize>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_amount_is_written_in_its_largest_whole_unit() {
        for (bytes, text) in
            [(256 << 20, "256MiB"), (1536 << 20, "1536MiB"), (1 << 30, "1GiB"), (1000, "1000B"), (0, "0B")]
        {
            assert_eq!(ByteSize(bytes).to_string(), text);
            assert_eq!(text.parse(), Ok(ByteSize(bytes)));
        }
    }
}
