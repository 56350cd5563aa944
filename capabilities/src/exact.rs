//! JSON without loss: numbers of any size, exactly.
//!
//! A tree of `serde_json` rounds integers of more than 64 bits, and fractions of more than 17 digits. Whoever checks the
//! rounded value and sends the text has checked another one. A [`Tree`] has each number as the text says it.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::DEEPEST;
use crate::refusal::quote;

/// A number of JSON, exactly, and as it is written. Equal numbers may be written differently: `1` and `1.0`.
#[derive(Debug, Clone)]
pub struct Number {
    text: Box<str>,
    value: Exact,
}

/// The value of a number. Each value has one form.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Exact {
    /// Every integer of at most [`Exact::DIGITS`] digits.
    Integer(i128),
    /// Anything else.
    Decimal(Box<Decimal>),
}

/// `0.DIGITS` times ten to the power of `point`. The digits neither begin nor end with zeros; zero has none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Decimal {
    negative: bool,
    digits: String,
    point: i64,
}

impl Number {
    /// Reads a number as JSON writes it.
    pub fn read(text: &str) -> Self {
        let small = text.parse::<i64>().ok();
        let value = small.map_or_else(|| Exact::of(Decimal::read(text)), |small| Exact::Integer(small.into()));
        Self { text: text.into(), value }
    }

    /// The number, if it is an integer of 64 bits with a sign.
    pub fn as_i64(&self) -> Option<i64> {
        self.as_i128()?.try_into().ok()
    }

    /// The number, if it is an integer of 64 bits without a sign.
    pub fn as_u64(&self) -> Option<u64> {
        self.as_i128()?.try_into().ok()
    }

    fn as_i128(&self) -> Option<i128> {
        match self.value {
            Exact::Integer(integer) => Some(integer),
            Exact::Decimal(_) => None,
        }
    }

    /// The number as `serde_json` reads it, which may round it.
    pub fn near(&self) -> serde_json::Number {
        serde_json::from_str(&self.text).unwrap_or_else(|_| 0.into())
    }

    /// The number as a program reads it whose numbers are integers of 64 bits and floats.
    pub fn rounded(&self) -> Self {
        // A float from here on is an integer, which has more digits than are needed to tell it from others.
        const WHOLE: f64 = (1_u64 << f64::MANTISSA_DIGITS) as f64;
        let near = self.near();
        match near.as_f64().filter(|float| near.is_f64() && float.abs() >= WHOLE) {
            Some(float) => Self::read(&format!("{float:.0}")),
            None => (&near).into(),
        }
    }

    /// Whether the number has no fraction.
    pub fn is_integer(&self) -> bool {
        match &self.value {
            Exact::Integer(_) => true,
            Exact::Decimal(decimal) => decimal.exponent() >= 0,
        }
    }

    /// Whether the number was written with neither a fraction nor an exponent.
    pub fn is_written_as_integer(&self) -> bool {
        !self.text.contains(['.', 'e', 'E'])
    }

    /// What a multiple is of, for [`Number::is_multiple_of`]. `None` if the number has too many digits for this.
    pub fn unit(&self) -> Option<Unit> {
        let decimal = self.value.decimal();
        (decimal.digits.len() <= Unit::DIGITS)
            .then(|| Unit { digits: decimal.digits.parse().unwrap_or(0), exponent: decimal.exponent() })
    }

    /// Whether the number is a unit times an integer.
    pub fn is_multiple_of(&self, unit: &Unit) -> bool {
        let decimal = self.value.decimal();
        let zeros = decimal.exponent().saturating_sub(unit.exponent);
        if unit.digits == 0 || decimal.digits.is_empty() {
            return decimal.digits.is_empty();
        }
        // The last digit is no zero, so nothing that ends further left divides the number.
        if zeros < 0 {
            return false;
        }
        // A power of ten that cancels all twos and fives of the unit: further zeros change nothing.
        let zeros = usize::try_from(zeros).unwrap_or(usize::MAX).min(2 * 64);
        let digits = decimal.digits.bytes().map(|digit| u128::from(digit - b'0'));
        digits.chain(std::iter::repeat_n(0, zeros)).fold(0, |rest, digit| (rest * 10 + digit) % unit.digits) == 0
    }
}

/// What numbers can be multiples of.
#[derive(Debug, Clone, Copy)]
pub struct Unit {
    /// The digits of the number, without zeros at its end.
    digits: u128,
    /// How many zeros follow.
    exponent: i64,
}

impl Unit {
    /// Most digits of a unit. Ten times its digits fit in 128 bits.
    pub const DIGITS: usize = 37;
}

impl Exact {
    /// Most digits of an integer that needs no memory of its own.
    const DIGITS: usize = 38;

    fn of(decimal: Decimal) -> Self {
        let integer =
            usize::try_from(decimal.point).ok().filter(|point| (decimal.digits.len()..=Self::DIGITS).contains(point));
        match integer {
            Some(point) => {
                let digits: i128 = format!("{:0<point$}", decimal.digits).parse().unwrap_or(0);
                Self::Integer(if decimal.negative { -digits } else { digits })
            }
            None if decimal.digits.is_empty() => Self::Integer(0),
            None => Self::Decimal(Box::new(decimal)),
        }
    }

    fn decimal(&self) -> Cow<'_, Decimal> {
        match self {
            Self::Integer(integer) => Cow::Owned(Decimal::read(&integer.to_string())),
            Self::Decimal(decimal) => Cow::Borrowed(decimal),
        }
    }
}

impl Decimal {
    fn read(text: &str) -> Self {
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let exponent: i64 =
            exponent.parse().unwrap_or(if exponent.starts_with('-') { i64::MIN / 2 } else { i64::MAX / 2 });
        let all = [whole, fraction].concat();
        let digits = all.trim_start_matches('0');
        let length = |text: &str| i64::try_from(text.len()).unwrap_or(i64::MAX / 2);
        let point = exponent.saturating_add(length(whole)).saturating_sub(length(&all) - length(digits));
        let digits = digits.trim_end_matches('0');
        let zero = digits.is_empty();
        Self { negative: negative && !zero, digits: digits.to_owned(), point: if zero { 0 } else { point } }
    }

    /// How many zeros follow the last digit; below zero, how many digits stand after the point.
    fn exponent(&self) -> i64 {
        self.point.saturating_sub(i64::try_from(self.digits.len()).unwrap_or(i64::MAX))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let sign = |one: &Self| {
            if one.digits.is_empty() {
                0
            } else if one.negative {
                -1
            } else {
                1
            }
        };
        let by_size = || (self.point, &self.digits).cmp(&(other.point, &other.digits));
        sign(self).cmp(&sign(other)).then_with(|| if self.negative { by_size().reverse() } else { by_size() })
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.value, &other.value) {
            (Exact::Integer(a), Exact::Integer(b)) => a.cmp(b),
            (a, b) => a.decimal().cmp(&b.decimal()),
        }
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Eq for Number {}

impl Hash for Number {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Self { text: value.to_string().into(), value: Exact::Integer(value.into()) }
    }
}

impl From<&serde_json::Number> for Number {
    fn from(number: &serde_json::Number) -> Self {
        Self::read(&number.to_string())
    }
}

impl fmt::Display for Number {
    /// As it was written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A value of JSON, whose numbers are exact. Trees are equal if they say the same: the order of keys and the ways of
/// writing a number or a string do not matter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Tree {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Self>),
    /// An object.
    Object(BTreeMap<String, Self>),
}

impl Tree {
    /// Reads a text in the only way in which it can be read.
    ///
    /// # Errors
    /// The text is not JSON, has a key twice in one object, a number beyond the largest float, or more than
    /// [`DEEPEST`] levels. The error names the place.
    pub fn read(text: &str) -> Result<Self, serde_json::Error> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let tree = Read { numbers: &mut numbers(text), depth: 0 }.deserialize(&mut reader)?;
        reader.end()?;
        Ok(tree)
    }

    /// A tree of `serde_json`. Its numbers are near to those of this one.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => (*value).into(),
            Self::Number(number) => Value::Number(number.near()),
            Self::Text(text) => text.as_str().into(),
            Self::List(items) => items.iter().map(Self::to_value).collect(),
            Self::Object(map) => map.iter().map(|(key, value)| (key.clone(), value.to_value())).collect(),
        }
    }

    /// The same with all numbers [rounded](Number::rounded).
    pub fn rounded(&self) -> Self {
        match self {
            Self::Number(number) => Self::Number(number.rounded()),
            Self::List(items) => Self::List(items.iter().map(Self::rounded).collect()),
            Self::Object(map) => Self::Object(map.iter().map(|(key, value)| (key.clone(), value.rounded())).collect()),
            other => other.clone(),
        }
    }

    /// The part that a JSON pointer names.
    pub fn at(&self, pointer: &str) -> Option<&Self> {
        let mut keys = pointer.split('/');
        keys.next().filter(|root| root.is_empty())?;
        keys.try_fold(self, |at, key| match at {
            Self::List(items) => items.get(key.parse::<usize>().ok()?),
            Self::Object(map) => map.get(&key.replace("~1", "/").replace("~0", "~")),
            _ => None,
        })
    }

    /// Whether both have the same type of JSON.
    pub(crate) fn has_type_of(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// Whether this is the same as a tree of `serde_json`.
    pub fn is(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Null, Value::Null) => true,
            (Self::Bool(a), Value::Bool(b)) => a == b,
            (Self::Number(a), Value::Number(b)) => *a == b.into(),
            (Self::Text(a), Value::String(b)) => a == b,
            (Self::List(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is(b)),
            (Self::Object(a), Value::Object(b)) => {
                a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| a.is(b)))
            }
            _ => false,
        }
    }
}

impl From<&Value> for Tree {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => Self::Number(number.into()),
            Value::String(text) => Self::Text(text.clone()),
            Value::Array(items) => Self::List(items.iter().map(Self::from).collect()),
            Value::Object(map) => Self::Object(map.iter().map(|(key, value)| (key.clone(), value.into())).collect()),
        }
    }
}

impl From<u64> for Tree {
    fn from(value: u64) -> Self {
        Self::Number(value.into())
    }
}

impl From<&str> for Tree {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// An object with these fields.
impl<const N: usize> From<[(&str, Self); N]> for Tree {
    fn from(fields: [(&str, Self); N]) -> Self {
        Self::Object(fields.map(|(name, value)| (name.to_owned(), value)).into())
    }
}

/// Works only in JSON, where numbers are written as they were read.
impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => to.serialize_unit(),
            Self::Bool(value) => to.serialize_bool(*value),
            Self::Number(number) => {
                RawValue::from_string(number.to_string()).map_err(serde::ser::Error::custom)?.serialize(to)
            }
            Self::Text(text) => to.serialize_str(text),
            Self::List(items) => to.collect_seq(items),
            Self::Object(fields) => to.collect_map(fields),
        }
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::List(items) => {
                let mut before = "[";
                for item in items {
                    write!(f, "{before}{item}")?;
                    before = ",";
                }
                f.write_str(if items.is_empty() { "[]" } else { "]" })
            }
            Self::Object(map) => {
                let mut before = "{";
                for (key, value) in map {
                    write!(f, "{before}{}:{value}", Value::from(key.as_str()))?;
                    before = ",";
                }
                f.write_str(if map.is_empty() { "{}" } else { "}" })
            }
            scalar => scalar.to_value().fmt(f),
        }
    }
}

/// The numbers in a text that is JSON, as they are written.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            match bytes[at] {
                b'"' => at = after_string(bytes, at),
                b'-' | b'0'..=b'9' => {
                    let from = at;
                    at += bytes[at..].iter().take_while(|byte| b"+-.eE0123456789".contains(byte)).count();
                    return Some(&text[from..at]);
                }
                _ => at += 1,
            }
        }
        None
    })
}

/// Where the string ends that begins at `at`.
fn after_string(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    at
}

/// Reads a value at this depth. The reader of JSON rounds numbers, so each one is taken from the text itself.
struct Read<'a, I> {
    numbers: &'a mut I,
    depth: usize,
}

impl<'a, 't, I: Iterator<Item = &'t str>> Read<'a, I> {
    fn below<E: Error>(&mut self) -> Result<Read<'_, I>, E> {
        if self.depth == DEEPEST {
            return Err(E::custom(format!("nested deeper than {DEEPEST} levels")));
        }
        Ok(Read { numbers: self.numbers, depth: self.depth + 1 })
    }

    fn number<E: Error>(&mut self) -> Result<Tree, E> {
        let text = self.numbers.next().ok_or_else(|| E::custom("a number is not in the text"))?;
        Ok(Tree::Number(Number::read(text)))
    }
}

impl<'de, 't, I: Iterator<Item = &'t str>> DeserializeSeed<'de> for Read<'_, I> {
    type Value = Tree;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Tree, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de, 't, I: Iterator<Item = &'t str>> Visitor<'de> for Read<'_, I> {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E: Error>(mut self, _: i64) -> Result<Tree, E> {
        self.number()
    }

    fn visit_u64<E: Error>(mut self, _: u64) -> Result<Tree, E> {
        self.number()
    }

    fn visit_f64<E: Error>(mut self, _: f64) -> Result<Tree, E> {
        self.number()
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Tree, E> {
        Ok(Tree::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self.below()?)? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Tree, A::Error> {
        let mut object = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom(format!("the key {} stands twice", quote(&format!("{key:?}")))));
            }
            let value = map.next_value_seed(self.below()?)?;
            object.insert(key, value);
        }
        Ok(Tree::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_exact() {
        let ascending = [
            "-1e300",
            "-100000000000000000000000000000000000000000",
            "-18446744073709551617",
            "-9223372036854775809.0",
            "-9223372036854775807",
            "-1.5",
            "-1",
            "-0.5",
            "-5e-324",
            "0",
            "1e-99999999999999999999",
            "5e-324",
            "0.1",
            "0.10000000000000000001",
            "1",
            "1.00000000000000000001",
            "1.0000000000000002",
            "9007199254740992",
            "9007199254740993",
            "9007199254740994.0",
            "9223372036854775807",
            "9223372036854775808",
            "18446744073709551615",
            "18446744073709551615.5",
            "18446744073709551616.0",
            "18446744073709551617",
            "1e30",
            "1000000000000000000000000000001",
            "170141183460469231731687303715884105727",
            "170141183460469231731687303715884105728",
            "1.7976931348623157e308",
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                let (a, b) = (Number::read(a), Number::read(b));
                assert_eq!(a.cmp(&b), i.cmp(&j), "{a} and {b}");
                assert_eq!(a == b, i == j, "{a} and {b}");
            }
        }
    }

    #[test]
    fn equal_numbers_may_be_written_differently() {
        for same in [
            &["1", "1.0", "10e-1", "0.1E1", "100000000000000000000000000000000000000000e-41"][..],
            &["0", "-0", "-0.0", "0e99", "0.000e-9"],
            &["18446744073709551616", "18446744073709551616.0", "1844674407370955161.6e1"],
            &["1e40", "10000000000000000000000000000000000000000", "1.0e+40"],
            &["-0.05", "-5e-2", "-0.0500"],
        ] {
            for (a, b) in same.iter().flat_map(|a| same.iter().map(move |b| (a, b))) {
                assert_eq!(Number::read(a), Number::read(b), "{a} and {b}");
            }
        }
    }

    #[test]
    fn integers_are_known_by_their_value() {
        for (text, integer, written) in [
            ("1", true, true),
            ("1.0", true, false),
            ("1e2", true, false),
            ("18446744073709551617", true, true),
            ("1e300", true, false),
            ("184467440737095516175e-1", false, false),
            ("1.5", false, false),
            ("1e-1", false, false),
        ] {
            let number = Number::read(text);
            assert_eq!((number.is_integer(), number.is_written_as_integer()), (integer, written), "{text}");
        }
        assert_eq!(Number::read("18446744073709551615").as_u64(), Some(u64::MAX));
        assert_eq!(Number::read("18446744073709551616").as_u64(), None);
        assert_eq!(Number::read("-9223372036854775808").as_i64(), Some(i64::MIN));
    }

    #[test]
    fn a_rounded_number_is_an_integer_of_64_bits_or_the_nearest_float() {
        for (text, rounded) in [
            ("0.10", "0.1"),
            ("0.10000000000000000001", "0.1"),
            ("999.99999999999999999", "1000"),
            ("1e-400", "0"),
            ("9007199254740993", "9007199254740993"),
            ("9007199254740993.0", "9007199254740992"),
            ("18446744073709551615", "18446744073709551615"),
            ("18446744073709551617", "18446744073709551616"),
            ("-9223372036854775901", "-9223372036854775808"),
            ("1e23", "99999999999999991611392"),
        ] {
            assert_eq!(Number::read(text).rounded(), Number::read(rounded), "{text}");
            assert_eq!(Number::read(text).rounded().rounded(), Number::read(rounded), "{text}");
        }
    }

    #[test]
    fn multiples_are_exact() {
        for (number, unit, multiple) in [
            ("0", "7", true),
            ("21", "7", true),
            ("22", "7", false),
            ("18446744073709551617", "2", false),
            ("18446744073709551618", "2", true),
            ("1e300", "1000", true),
            ("1e300", "3", false),
            ("0.3", "0.1", true),
            ("0.35", "0.1", false),
            ("1", "0.0001", true),
            ("4.35", "0.01", true),
            ("-9.3", "3.1", true),
            ("1", "1e-300", true),
            ("1", "3e-300", false),
            ("1e300", "1.7014118346046923173168730371588410e-9", false),
            ("5", "10", false),
            ("1e9", "340282366920938463463374607431768211e-2", false),
        ] {
            let unit = Number::read(unit).unit().unwrap();
            assert_eq!(Number::read(number).is_multiple_of(&unit), multiple, "{number} of {unit:?}");
        }
        assert!(Number::read(&"7".repeat(37)).unit().is_some());
        assert!(Number::read(&"7".repeat(38)).unit().is_none());
    }

    #[test]
    fn a_tree_has_what_the_text_says() {
        let text = r#"{"b": [18446744073709551617, -1.50, "-7 \\\" 8"], "a\u0031 9": {"": null, "t": true}, "e": 1E2}"#;
        let Tree::Object(map) = Tree::read(text).unwrap() else { panic!() };
        let list = vec![
            Tree::Number(Number::read("18446744073709551617")),
            Tree::Number(Number::read("-1.5")),
            Tree::Text("-7 \\\" 8".into()),
        ];
        assert_eq!(map["b"], Tree::List(list));
        assert_eq!(map["a1 9"].to_value(), serde_json::json!({"": null, "t": true}));
        let shown = r#"{"a1 9":{"":null,"t":true},"b":[18446744073709551617,-1.50,"-7 \\\" 8"],"e":1E2}"#;
        assert_eq!(Tree::read(text).unwrap().to_string(), shown);
        assert!(map["e"].is(&serde_json::json!(100)) && !map["e"].is(&serde_json::json!(101)));
        for (text, why) in [
            (r#"{"a": 1, "\u0061": 2}"#, "stands twice"),
            (r#"[[{"b": {"a": 1, "c": 0, "a": 2}}]]"#, "stands twice"),
            ("1e400", "out of range"),
            ("NaN", "expected"),
            ("1 2", "trailing"),
            ("", "EOF"),
            (r#""\ud800""#, "hex escape"),
        ] {
            let error = Tree::read(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Tree::read(&nested(DEEPEST)).is_ok());
        for depth in [DEEPEST + 2, 127, 128, 1_000_000] {
            assert!(Tree::read(&nested(depth)).is_err(), "{depth}");
        }
    }
}
