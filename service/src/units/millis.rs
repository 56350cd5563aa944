//! Lengths of time.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{ParseError, scale, split};

/// A length of time: `"270s"`, `"1.5m"`, `"500ms"`, `"1h"` or `"2d"`. It is exact to the millisecond. In a configuration
/// (but not on a command line), a plain number is one of milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub Duration);

impl Millis {
    /// This many milliseconds.
    pub const fn from_millis(n: u64) -> Self {
        Self(Duration::from_millis(n))
    }

    /// This many seconds.
    pub const fn from_secs(n: u64) -> Self {
        Self(Duration::from_secs(n))
    }

    /// The same time as a [`Duration`].
    pub const fn duration(self) -> Duration {
        self.0
    }

    /// The time in whole milliseconds, or the largest number if it doesn't fit.
    pub fn as_millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }
}

impl From<Duration> for Millis {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl From<Millis> for Duration {
    fn from(millis: Millis) -> Self {
        millis.0
    }
}

impl FromStr for Millis {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::read(text, false)
    }
}

impl Millis {
    fn read(text: &str, bare: bool) -> Result<Self, ParseError> {
        let (number, unit) = split(text);
        let factor = match unit {
            "" if bare => Some(1),
            "ms" => Some(1),
            "s" => Some(1_000),
            "m" | "min" => Some(60_000),
            "h" => Some(3_600_000),
            "d" => Some(86_400_000),
            _ => None,
        };
        if unit.is_empty() && !bare && scale(number, 1).is_some() {
            let (text, units) = (text.trim().to_owned(), "ms, s, m, h and d");
            return Err(ParseError::NoUnit { text, unit: "s", units });
        }
        factor.and_then(|factor| scale(number, factor)).map(Self::from_millis).ok_or_else(|| ParseError::Malformed {
            text: text.to_owned(),
            what: if bare { "a time like \"270s\" or a number of milliseconds" } else { "a time like \"270s\"" },
        })
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.as_millis();
        let text = match n {
            0 => "0s".to_owned(),
            n if n % 86_400_000 == 0 => format!("{}d", n / 86_400_000),
            n if n % 3_600_000 == 0 => format!("{}h", n / 3_600_000),
            n if n % 60_000 == 0 => format!("{}m", n / 60_000),
            n if n % 1_000 == 0 => format!("{}s", n / 1_000),
            n => format!("{n}ms"),
        };
        f.pad(&text)
    }
}

impl Serialize for Millis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Millis;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time like \"270s\" or a number of milliseconds")
            }
            fn visit_u64<E: de::Error>(self, n: u64) -> Result<Millis, E> {
                Ok(Millis::from_millis(n))
            }
            fn visit_i64<E: de::Error>(self, n: i64) -> Result<Millis, E> {
                u64::try_from(n)
                    .map(Millis::from_millis)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(n), &self))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Millis, E> {
                Millis::read(text, true).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for Millis {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Millis".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "oneOf": [
                { "type": "string", "pattern": r"^[0-9_.]+ ?(ms|s|m|min|h|d)?$" },
                { "type": "integer", "minimum": 0 },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, ms) in
            [("270s", 270_000), ("1.5m", 90_000), ("500ms", 500), ("2 h", 7_200_000), ("0s", 0), ("1d", 86_400_000)]
        {
            assert_eq!(text.parse(), Ok(Millis::from_millis(ms)), "{text}");
        }
        for bare in ["30", "1.5", " 250 ", "0"] {
            let error = bare.parse::<Millis>().unwrap_err().to_string();
            assert!(
                error.contains(&format!("has no unit: write {}s, or another unit of ms, s", bare.trim())),
                "{error}"
            );
        }
        let of_configuration = |value: serde_json::Value| serde_json::from_value::<Millis>(value).unwrap();
        assert_eq!(of_configuration("250".into()), Millis::from_millis(250));
        assert_eq!(of_configuration(250.into()), Millis::from_millis(250));
        for bad in ["", "s", "-1s", "1 fortnight", "1e3", "1.s.2"] {
            assert!(bad.parse::<Millis>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_time_is_written_in_its_largest_whole_unit() {
        for (ms, text) in [(270_000, "270s"), (60_000, "1m"), (1_500, "1500ms"), (0, "0s"), (3_600_000, "1h")] {
            assert_eq!(Millis::from_millis(ms).to_string(), text);
            assert_eq!(text.parse(), Ok(Millis::from_millis(ms)));
        }
    }
}
