//! Compares numbers exactly, and values deeply.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// Larger than every integer that occurs. The whole part of a float below it fits in an `i128`.
const BEYOND: f64 = 1.0e30;

/// The order of two numbers, exactly: 2^53 + 1 as an integer is above 2^53 as a float. Zero has no sign.
pub(crate) fn compare(a: &Number, b: &Number) -> Ordering {
    match (integer(a), integer(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(a), None) => with_float(a, float(b)),
        (None, Some(b)) => with_float(b, float(a)).reverse(),
        (None, None) => float(a).partial_cmp(&float(b)).unwrap_or_else(|| unreachable!("numbers of JSON are finite")),
    }
}

/// An integer, if the number is written as one.
fn integer(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or_else(|| unreachable!("a number of 64 bits has a float near it"))
}

/// The order of an integer of at most 65 bits and a finite float.
#[expect(clippy::cast_possible_truncation, reason = "the whole part is exact below BEYOND")]
fn with_float(integer: i128, float: f64) -> Ordering {
    if float >= BEYOND {
        return Ordering::Less;
    }
    if float <= -BEYOND {
        return Ordering::Greater;
    }
    let whole = float.trunc();
    let by_whole = integer.cmp(&(whole as i128));
    by_whole.then_with(|| 0.0_f64.partial_cmp(&(float - whole)).unwrap_or(Ordering::Equal))
}

/// Whether two values are the same. Numbers are compared as numbers, so 1 is 1.0. The order of keys does not count.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare(a, b).is_eq(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

/// Whether two values have the same type of JSON.
pub(crate) fn same_type(a: &Value, b: &Value) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_order_is_exact() {
        let ascending = [
            "-1e300",
            "-9223372036854775809.0",
            "-9223372036854775807",
            "-1.5",
            "-1",
            "-0.5",
            "-5e-324",
            "0",
            "5e-324",
            "0.1",
            "1",
            "1.0000000000000002",
            "9007199254740992",
            "9007199254740993",
            "9007199254740994.0",
            "9223372036854775807",
            "9223372036854775808",
            "18446744073709551615",
            "18446744073709551616.0",
            "1e30",
            "1.7976931348623157e308",
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(compare(&number(a), &number(b)), i.cmp(&j), "{a} and {b}");
            }
        }
    }

    #[test]
    fn equal_numbers_may_be_written_differently() {
        for (a, b) in [
            ("1", "1.0"),
            ("0", "-0.0"),
            ("-0", "0.0"),
            ("1e3", "1000"),
            ("9007199254740992", "9007199254740992.0"),
            ("18446744073709549568", "18446744073709549568.0"),
        ] {
            assert_eq!(compare(&number(a), &number(b)), Ordering::Equal, "{a} and {b}");
            assert_eq!(compare(&number(b), &number(a)), Ordering::Equal, "{b} and {a}");
        }
    }
}
