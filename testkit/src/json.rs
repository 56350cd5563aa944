//! JSON in all the ways in which it can be written, for tests that a text stays as it is.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// A value as any writer may write it: numbers of any length and form within the range of floats, keys in any order and
/// never twice in an object, escapes, and space between the parts.
pub fn written() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        "-?(0|[1-9][0-9]{0,40})",
        "-?(0|[1-9][0-9]{0,20})\\.[0-9]{1,30}",
        "-?(0|[1-9][0-9]{0,3})(\\.[0-9]{1,5})?[eE][+-]?[0-9]{1,2}",
        prop::sample::select(vec![
            "-0",
            "-0.0",
            "1E+2",
            "9007199254740993",
            "18446744073709551617",
            "-9223372036854775809",
            "0.1000000000000000055511151231257827",
            "1.7976931348623157e308",
            "5e-324",
            "1e-400",
        ])
        .prop_map(str::to_owned),
    ];
    let leaf = prop_oneof![4 => number, 1 => string(), 1 => "null|true|false"];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let member = (string(), space(), inner.clone());
        prop_oneof![
            (vec(inner, 0..6), space()).prop_map(|(items, space)| format!("[{}]", items.join(&format!(",{space}")))),
            vec(member, 0..6).prop_map(|members| {
                // Each key ends with its number, so that none stands twice.
                let one = |(at, (key, space, value)): (usize, (String, String, String))| {
                    format!("{}~{at}\"{space}:{space}{value}", &key[..key.len() - 1])
                };
                format!("{{{}}}", members.into_iter().enumerate().map(one).collect::<Vec<_>>().join(","))
            }),
        ]
    })
}

/// Jobs with a list where an object belongs, each with the path of that place. Most lists have the values of the object's
/// first fields.
pub const LISTS_FOR_OBJECTS: [(&str, &str); 15] = [
    ("", r#"[1, "a", "python", "print(1)"]"#),
    ("/session", r#"{"id": "a", "code": "", "session": ["s"]}"#),
    ("/limits", r#"{"id": "a", "code": "", "limits": [5000]}"#),
    ("/limits", r#"{"id": "a", "code": "", "limits": []}"#),
    ("/tools/0", r#"{"id": "a", "code": "", "tools": [["t"]]}"#),
    ("/tools/0/parameters/0", r#"{"id": "a", "code": "", "tools": [{"name": "t", "parameters": [["p"]]}]}"#),
    ("/capabilities/0", r#"{"id": "a", "code": "", "capabilities": [["t"]]}"#),
    ("/files/0", r#"{"id": "a", "code": "", "files": [["a.txt", "text"]]}"#),
    ("/artifacts", r#"{"id": "a", "code": "", "artifacts": [true]}"#),
    ("/artifacts", r#"{"id": "a", "code": "", "artifacts": []}"#),
    ("/inputs", r#"{"id": "a", "code": "", "inputs": []}"#),
    ("/inputs/x", r#"{"id": "a", "code": "", "inputs": {"x": [1]}}"#),
    ("/inputs/x", r#"{"id": "a", "code": "", "inputs": {"x": ["value", 1]}}"#),
    ("/env", r#"{"id": "a", "code": "", "env": []}"#),
    ("/labels", r#"{"id": "a", "code": "", "labels": []}"#),
];

/// This many values of [`written`], in a list.
pub fn list(length: usize) -> String {
    let mut runner = TestRunner::default();
    let mut one = || written().new_tree(&mut runner).map_or_else(|why| panic!("{why}"), |tree| tree.current());
    format!("[{}]", (0..length).map(|_| one()).collect::<Vec<_>>().join(", "))
}

fn space() -> impl Strategy<Value = String> {
    "[ \t\r\n]{0,2}"
}

fn string() -> impl Strategy<Value = String> {
    r#""([a-z0-9 äß漢😀/]|\\["\\/bfnrt]|\\u00[0-9a-f]{2}|\\ud83d\\ude00){0,6}""#
}
