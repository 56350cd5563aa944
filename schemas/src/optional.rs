//! How the fields of a client's message are read. There is one rule for all of them:
//!
//! - `null` leaves an optional field out. Only a field that takes rights away (a job's `capabilities` and `token`) can't
//!   be null: a value that got lost must not allow more.
//! - An object is never a list of its fields: see [`objects!`](crate::objects).
//! - A number is an integer if it has no fraction, as in JSON Schema: `5000.0` and `5e3` are 5000.
//!
//! The tests in `tests/optional.rs` go through the schemas of all messages and hold each field to it.

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU32;

use schemars::Schema;
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// Reads an optional field. Without a value, it has its default.
///
/// # Errors
/// It has a value of another type.
pub fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// The integers that fields have.
pub trait Integer: Sized {
    /// The smallest one.
    const LEAST: i128;
    /// The largest one.
    const MOST: i128;

    /// This integer, if it is one of them.
    fn new(n: i128) -> Option<Self>;
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl Integer for $integer {
            const LEAST: i128 = <$integer>::MIN as i128;
            const MOST: i128 = <$integer>::MAX as i128;

            fn new(n: i128) -> Option<Self> {
                n.try_into().ok()
            }
        }
    )*};
}

integers!(i32, u32, u64, usize);

impl Integer for NonZeroU32 {
    const LEAST: i128 = 1;
    const MOST: i128 = u32::MAX as i128;

    fn new(n: i128) -> Option<Self> {
        u32::try_from(n).ok().and_then(Self::new)
    }
}

/// Reads a field that must have an integer.
///
/// # Errors
/// It has another value.
pub fn integer<'de, D: Deserializer<'de>, T: Integer>(from: D) -> Result<T, D::Error> {
    struct Whole<T>(PhantomData<T>);
    impl<T: Integer> Visitor<'_> for Whole<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "an integer from {} to {}", T::LEAST, T::MOST)
        }

        fn visit_u64<E: Error>(self, n: u64) -> Result<T, E> {
            T::new(n.into()).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(n), &self))
        }

        fn visit_i64<E: Error>(self, n: i64) -> Result<T, E> {
            T::new(n.into()).ok_or_else(|| E::invalid_value(Unexpected::Signed(n), &self))
        }

        fn visit_f64<E: Error>(self, n: f64) -> Result<T, E> {
            /// Above it, floating point no longer has every integer.
            const EXACT: f64 = (1_u64 << f64::MANTISSA_DIGITS) as f64;
            let whole = (n.fract() == 0.0 && n.abs() <= EXACT).then_some(n as i128).and_then(T::new);
            whole.ok_or_else(|| E::invalid_value(Unexpected::Float(n), &self))
        }
    }
    // The buffer of a flattened type only gives its own kind of number to who asks for anything.
    from.deserialize_any(Whole(PhantomData))
}

/// Reads an optional field that has an integer.
///
/// # Errors
/// It has another value.
pub fn some_integer<'de, D: Deserializer<'de>, T: Integer>(from: D) -> Result<Option<T>, D::Error> {
    struct Maybe<T>(PhantomData<T>);
    impl<'de, T: Integer> Visitor<'de> for Maybe<T> {
        type Value = Option<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an integer or null")
        }

        fn visit_none<E>(self) -> Result<Option<T>, E> {
            Ok(None)
        }

        fn visit_unit<E>(self) -> Result<Option<T>, E> {
            Ok(None)
        }

        fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Option<T>, D::Error> {
            integer(from).map(Some)
        }
    }
    from.deserialize_option(Maybe(PhantomData))
}

/// Reads an optional field that has an integer, by default `N`.
///
/// # Errors
/// It has another value.
pub fn integer_or<'de, const N: u32, D: Deserializer<'de>, T: Integer>(from: D) -> Result<T, D::Error> {
    let default = || T::new(N.into()).ok_or_else(|| D::Error::custom("the default is out of range"));
    some_integer(from)?.map_or_else(default, Ok)
}

/// Says in a type's schema that its optional fields may be null.
pub fn nullable(schema: &mut Schema) {
    for_optional(schema, |_| true);
}

/// [`nullable`] for a job, whose `capabilities` and `token` can't be null.
pub(crate) fn nullable_in_a_job(schema: &mut Schema) {
    for_optional(schema, |name| !["capabilities", "token"].contains(&name));
}

fn for_optional(schema: &mut Schema, may: impl Fn(&str) -> bool + Copy) {
    // An enum has the fields in its variants.
    if let Some(Value::Array(variants)) = schema.get_mut("oneOf") {
        for variant in variants {
            if let Ok(variant) = variant.try_into() {
                for_optional(variant, may);
            }
        }
    }
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (name, field) in properties {
        if let Ok(field) = (&mut *field).try_into() {
            for_optional(field, may);
        }
        if may(name) && !required.contains(&json!(name)) {
            or_null(field);
        }
    }
}

/// Lets a schema take null, too.
fn or_null(field: &mut Value) {
    let Some(keywords) = field.as_object_mut() else { return };
    match keywords.get_mut("type") {
        Some(Value::Array(types)) if types.contains(&json!("null")) => return,
        Some(Value::Array(types)) => return types.push(json!("null")),
        Some(one @ Value::String(_)) => return *one = json!([*one, "null"]),
        _ => {}
    }
    let wrapped: Vec<(&str, Value)> = ["$ref", "anyOf", "oneOf"]
        .into_iter()
        .filter_map(|key| keywords.remove_entry(key).map(|(_, value)| (key, value)))
        .collect();
    let null = json!({"type": "null"});
    for (key, value) in wrapped {
        let branches = match (key, value) {
            ("anyOf", Value::Array(branches)) => branches,
            (key, value) => vec![json!({key: value})],
        };
        let more = (!branches.contains(&null)).then(|| null.clone());
        keywords.insert("anyOf".to_owned(), branches.into_iter().chain(more).collect());
    }
}
