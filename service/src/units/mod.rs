//! Quantities with units, in configuration files and on command lines.

mod bytes;
mod millis;

use std::time::Duration;

pub use bytes::ByteSize;
pub use millis::Millis;

/// The text is not a valid quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// It is none.
    #[error("{text:?} is not {what}")]
    Malformed {
        /// The text.
        text: String,
        /// What was expected.
        what: &'static str,
    },
    /// It is a number without a unit. People read it in different ways.
    #[error("{text:?} has no unit: write {text}{unit}, or another unit of {units}")]
    NoUnit {
        /// The text.
        text: String,
        /// The unit that was probably meant.
        unit: &'static str,
        /// All units.
        units: &'static str,
    },
}

/// A length of time as people read it, for errors. It is rounded to the millisecond.
pub fn seconds(time: Duration) -> String {
    let least = if time.is_zero() { 0.0 } else { 1.0 };
    format!("{} s", (time.as_secs_f64() * 1e3).round().max(least) / 1e3)
}

/// Splits `1.5GiB` into its number and its unit.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

/// A decimal number times a factor, rounded down. `None` if the number is malformed, or if the result doesn't fit.
fn scale(number: &str, factor: u64) -> Option<u64> {
    let number = number.replace('_', "");
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, "0"));
    let whole: u64 = whole.parse().ok()?;
    let digits = u32::try_from(fraction.len()).ok()?;
    let fraction: u128 = fraction.parse().ok()?;
    let part = fraction.checked_mul(u128::from(factor))? / 10u128.checked_pow(digits)?;
    whole.checked_mul(factor)?.checked_add(u64::try_from(part).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_without_noise() {
        for (time, told) in [
            (Duration::from_secs_f64(1.999_989_343_999_999_8), "2 s"),
            (Duration::from_micros(1_234_567), "1.235 s"),
            (Duration::from_millis(1500), "1.5 s"),
            (Duration::from_secs(84), "84 s"),
            (Duration::from_nanos(1), "0.001 s"),
            (Duration::ZERO, "0 s"),
        ] {
            assert_eq!(seconds(time), told);
        }
    }
}
