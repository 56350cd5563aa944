//! Quantities with units, in configuration files and on command lines.

mod bytes;
mod millis;

pub use bytes::ByteSize;
pub use millis::Millis;

/// The text is not a valid quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {what}")]
pub struct ParseError {
    text: String,
    what: &'static str,
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
