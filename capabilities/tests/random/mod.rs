//! Random sets and calls from a small world, in which much meets.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// A call.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
}

const NAMES: [&str; 8] = ["a", "b", "a/b", "a/a", "b/b", "a/b/b", "b/a/b", "c"];
const PATTERNS: [&str; 14] =
    ["a", "b", "a/b", "*", "**", "a/*", "*/b", "a/**", "**/b", "*/**", "**/*", "a/**/b", "*/*", "b/*/b"];
const PATHS: [&str; 6] = ["n", "s", "o/n", "o/s", "l/0", "l/1"];
const TEXTS: [&str; 7] = ["a", "ab", "aba", "b", "ba", "1", "true"];

fn number() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!(0),
        json!(-0.0),
        json!(1),
        json!(1.0),
        json!(1.5),
        json!(2),
        json!(-1),
        json!(9_007_199_254_740_992_u64),
        json!(9_007_199_254_740_992.0),
        json!(9_007_199_254_740_993_u64),
        json!(u64::MAX),
        json!(1e300),
    ])
}

fn text() -> impl Strategy<Value = String> {
    prop::sample::select(TEXTS.to_vec()).prop_map(str::to_owned)
}

/// A value that may stand at a path.
fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => number(),
        3 => text().prop_map(Value::String),
        1 => prop::sample::select(
            [json!(true), json!(false), json!(null), json!([]), json!({}), json!([1]), json!({"n": 1})].to_vec()
        ),
    ]
}

fn not_null() -> impl Strategy<Value = Value> {
    value().prop_filter("null", |value| !value.is_null())
}

/// Arguments with every kind of value at the path `n`, and without one.
pub(crate) fn every_n() -> Vec<Value> {
    let numbers = [-8.0, -1.0, 0.0, 0.5, 1.0, 1.25, 1.5, 1.75, 2.0, 3.0, 9e15, 1e300, 1e301].map(Value::from);
    let large = [9_007_199_254_740_991, 9_007_199_254_740_992, 9_007_199_254_740_993, u64::MAX].map(Value::from);
    let texts = TEXTS.into_iter().chain(["", "abab", "aab", "bab", "c"]).map(Value::from);
    let others = [json!(true), json!(false), json!(null), json!([]), json!({}), json!([1]), json!({"n": 1})];
    let values = numbers.into_iter().chain(large).chain(texts).chain(others);
    values.map(|value| json!({"n": value})).chain([json!({})]).collect()
}

/// Arguments in which most paths lead somewhere.
fn arguments() -> impl Strategy<Value = Value> {
    let maybe = || prop::option::weighted(0.8, value());
    let object = (maybe(), maybe()).prop_map(|(n, s)| {
        let pairs = [("n", n), ("s", s)].into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        Value::Object(pairs.collect())
    });
    let list = prop::collection::vec(value(), 0..3).prop_map(Value::Array);
    (maybe(), maybe(), prop_oneof![4 => object, 1 => value()], prop_oneof![4 => list, 1 => value()]).prop_map(
        |(n, s, o, l)| {
            let pairs = [("n", n), ("s", s), ("o", Some(o)), ("l", Some(l))];
            Value::Object(pairs.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect())
        },
    )
}

pub(crate) fn asked() -> impl Strategy<Value = Asked> {
    (prop::sample::select(NAMES.to_vec()), arguments())
        .prop_map(|(tool, arguments)| Asked { tool: tool.to_owned(), arguments })
}

/// An operator and its value.
fn test() -> impl Strategy<Value = (&'static str, Option<Value>)> {
    let op = |ops: &'static [&'static str]| prop::sample::select(ops);
    prop_oneof![
        4 => (op(&["<", "<=", ">", ">="]), number()).prop_map(|(op, value)| (op, Some(value))),
        2 => value().prop_map(|value| ("==", Some(value))),
        2 => not_null().prop_map(|value| ("!=", Some(value))),
        2 => prop::collection::vec(value(), 1..4).prop_map(|list| ("in", Some(list.into()))),
        2 => prop::collection::vec(not_null(), 1..4).prop_map(|list| ("not in", Some(list.into()))),
        2 => (op(&["starts", "ends", "contains"]), text()).prop_map(|(op, text)| (op, Some(text.into()))),
        1 => op(&["exists", "not exists"]).prop_map(|op| (op, None)),
    ]
}

fn constraint() -> impl Strategy<Value = Value> {
    constraint_on(&PATHS)
}

/// A constraint on some of these paths.
pub(crate) fn constraint_on(paths: &[&'static str]) -> impl Strategy<Value = Value> + use<> {
    let leaf = (prop::sample::select(paths.to_vec()), test()).prop_map(|(path, (op, value))| {
        let mut map = Map::new();
        map.insert("path".into(), path.into());
        map.insert("op".into(), op.into());
        map.extend(value.map(|value| ("value".to_owned(), value)));
        Value::Object(map)
    });
    leaf.prop_recursive(3, 8, 3, |inner| {
        (prop::sample::select(vec!["and", "or"]), prop::collection::vec(inner, 1..3))
            .prop_map(|(word, list)| json!({word: list}))
    })
}

fn capability() -> impl Strategy<Value = Value> {
    let constraints = prop_oneof![2 => Just(vec![]), 3 => prop::collection::vec(constraint(), 1..3)];
    let calls = prop::option::weighted(0.3, 1..6_u32);
    let bytes = prop::option::weighted(0.1, 10..60_u64);
    (prop::sample::select(PATTERNS.to_vec()), constraints, calls, bytes).prop_map(
        |(pattern, constraints, calls, bytes)| {
            let mut map = Map::new();
            map.insert("pattern".into(), pattern.into());
            if !constraints.is_empty() {
                map.insert("constraints".into(), constraints.into());
            }
            map.extend(calls.map(|calls| ("max_calls".to_owned(), calls.into())));
            map.extend(bytes.map(|bytes| ("max_argument_bytes".to_owned(), bytes.into())));
            Value::Object(map)
        },
    )
}

/// A set of less than so many capabilities, as JSON.
pub(crate) fn set(most: usize) -> impl Strategy<Value = Value> {
    prop::collection::vec(capability(), 0..most).prop_map(Value::Array)
}

/// A set in which most capabilities want approval.
pub(crate) fn approved() -> impl Strategy<Value = Value> {
    let approval = (1..6_u32, prop::option::of(1..1000_u32)).prop_map(|(next, timeout)| match timeout {
        Some(timeout) => json!({"next": next, "timeout_ms": timeout}),
        None => json!({"next": next}),
    });
    let capability = (capability(), prop::option::weighted(0.7, approval)).prop_map(|(mut capability, approval)| {
        if let Some(approval) = approval {
            capability["approval"] = approval;
        }
        capability
    });
    prop::collection::vec(capability, 0..4).prop_map(Value::Array)
}

/// A set, and one with tighter constraints, numbers or patterns at random places.
pub(crate) fn tightened() -> impl Strategy<Value = (Value, Value)> {
    let change = (0..5_u8, any::<prop::sample::Index>(), constraint(), prop::sample::select(NAMES.to_vec()));
    (prop::collection::vec(capability(), 1..3), prop::collection::vec(change, 1..4)).prop_map(|(wide, changes)| {
        let mut tight = wide.clone();
        for (kind, place, constraint, name) in changes {
            let at = place.index(tight.len());
            match kind {
                0 => tight[at]["pattern"] = name.into(),
                1 => match tight[at].get_mut("constraints").and_then(Value::as_array_mut) {
                    Some(list) => list.push(constraint),
                    None => tight[at]["constraints"] = json!([constraint]),
                },
                2 => tight[at]["max_calls"] = json!(1),
                3 => tight.swap(0, at),
                _ => lower(&mut tight[at]),
            }
        }
        (wide.into(), tight.into())
    })
}

/// Changes the bounds of all numbers in a capability.
fn lower(value: &mut Value) {
    match value {
        Value::Object(map) if map.get("op").is_some_and(|op| op == "<" || op == "<=") => {
            map.insert("value".into(), json!(-7));
        }
        Value::Object(map) if map.get("op").is_some_and(|op| op == "in") => {
            if let Some(list) = map.get_mut("value").and_then(Value::as_array_mut) {
                list.truncate(1);
            }
        }
        Value::Object(map) => map.values_mut().for_each(lower),
        Value::Array(list) => list.iter_mut().for_each(lower),
        _ => {}
    }
}

/// The same set without a field.
pub(crate) fn unvalued(set: &Value, field: &str) -> Value {
    let mut set = set.clone();
    for capability in set.as_array_mut().into_iter().flatten() {
        capability.as_object_mut().unwrap().remove(field);
    }
    set
}

/// A part that is wrong in most places.
pub(crate) fn wrong_part() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "null",
        "true",
        "0",
        "-1",
        "1.5",
        "\"\"",
        "\"x\"",
        "\"<=5\"",
        "\"a*\"",
        "[]",
        "[1]",
        "{}",
        "{\"a\": 1}",
        "[[]]",
    ])
    .prop_map(str::to_owned)
}

/// A set with one of its values replaced. `None` if the set has no value below it.
pub(crate) fn replace(set: &Value, place: prop::sample::Index, part: &str) -> Option<String> {
    fn pointers(value: &Value, at: String, all: &mut Vec<String>) {
        let below: Vec<(String, &Value)> = match value {
            Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), value)).collect(),
            Value::Array(list) => list.iter().enumerate().map(|(n, value)| (n.to_string(), value)).collect(),
            _ => vec![],
        };
        for (key, value) in below {
            let at = format!("{at}/{key}");
            all.push(at.clone());
            pointers(value, at, all);
        }
    }
    let mut all = Vec::new();
    pointers(set, String::new(), &mut all);
    let mut set = set.clone();
    let at = (!all.is_empty()).then(|| place.get(&all))?;
    *set.pointer_mut(at)? = serde_json::from_str(part).unwrap();
    Some(set.to_string())
}
