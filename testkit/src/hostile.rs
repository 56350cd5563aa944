//! Inputs that try to break parsers, for the tests of every crate that reads what a job or a client controls.
//!
//! There are two kinds: a fixed corpus (the files in `corpus/`, and [`made`] for inputs that are too long for a file),
//! and strategies for `proptest`, which finds more. All tests that use them are named `hostile`, so that `cargo xtask
//! fuzz` finds them. `PROPTEST_CASES` sets the number of cases for each test.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

/// The file in `corpus/`: one input in each line, for parsers of JSON.
const LINES: &str = include_str!("../corpus/json.txt");

/// Nesting depth of the made inputs. It overflows the stack of every parser that recurses without a limit.
const DEEP: usize = 200_000;

/// All inputs of the corpus, made ones included.
pub fn corpus() -> Vec<Vec<u8>> {
    LINES.lines().filter(|line| !line.starts_with("//")).map(|line| line.as_bytes().to_vec()).chain(made()).collect()
}

/// Inputs that are too long for a file, or are not text.
pub fn made() -> Vec<Vec<u8>> {
    let nest = |open: &str, inner: &str, close: &str| [open.repeat(DEEP), inner.into(), close.repeat(DEEP)].concat();
    let mut made: Vec<Vec<u8>> = [
        nest("[", "", "]"),
        nest("[", "", ""),
        nest("{\"a\":", "1", "}"),
        nest("[{\"a\":", "1", "}]"),
        format!("{{\"id\":\"a\",\"code\":\"\",\"labels\":{}}}", nest("{\"a\":", "1", "}")),
        format!("{{\"id\":\"a\",\"code\":\"\",\"x\":{}}}", nest("[", "", "]")),
        format!("{{\"op\":\"display\",\"data\":{}}}", nest("{\"a\":", "1", "}")),
        format!("{{\"call\":\"c\",\"ok\":{}}}", nest("[", "", "]")),
        format!("{{\"id\":{}}}", "9".repeat(100_000)),
        format!("{{\"id\":\"{}\",\"code\":\"\"}}", "a".repeat(1 << 20)),
        format!("{{{}\"z\":1}}", "\"a\":1,".repeat(50_000)),
        "\"".repeat(100_001),
        "\\".repeat(100_001),
    ]
    .map(String::into_bytes)
    .into();
    made.extend([
        b"\xff\xfe".to_vec(),
        b"\xef\xbb\xbf{}".to_vec(),
        vec![0; 4096],
        b"\"\xed\xa0\x80\"".to_vec(),
        vec![],
    ]);
    made
}

/// Any bytes; mostly short ones.
pub fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(any::<u8>(), 0..64), vec(any::<u8>(), 0..4096)]
}

/// Text that is odd where names and words are expected.
pub fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z0-9_.*#-]{0,12}",
        "\\PC{0,20}",
        any::<String>(),
        prop::sample::select(vec![
            "*", "#", ".", "..", "a.b", "a.*", "#.a", "", " ", "\0", "\n", "é", "\u{202e}", "\u{feff}", "null",
            "cancel", "pool", "worker", "control", "lanes", "-", "_", "/", "%2e", "{}",
        ])
        .prop_map(str::to_owned),
        (0usize..200).prop_map(|n| "a".repeat(n)),
    ]
}

/// The text of a number, or of something that looks like one.
pub fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        any::<u64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_map(|n| n.to_string()),
        prop::sample::select(vec![
            "0",
            "-0",
            "1",
            "-1",
            "1e0",
            "1.0",
            "1e999",
            "-1e999",
            "1e-999",
            "00",
            "+1",
            ".5",
            "1.",
            "0x10",
            "NaN",
            "Infinity",
            "-Infinity",
            "4294967295",
            "4294967296",
            "18446744073709551615",
            "18446744073709551616",
            "9223372036854775808",
            "-9223372036854775809",
            "1e400000000000000000000",
            "1_000",
        ])
        .prop_map(str::to_owned),
    ]
}

/// The text of a JSON value, or almost: keys may occur twice, strings may have lone surrogates, and numbers may be
/// malformed. Keys are often from `fields`, so that a parser gets past its first checks.
pub fn json(fields: &'static [&'static str]) -> impl Strategy<Value = String> {
    let string = prop_oneof![
        word().prop_map(|word| quote(&word)),
        prop::sample::select(vec![
            r#""\ud800""#,
            r#""\udfff\ud800""#,
            r#""\u0000""#,
            r#""\x""#,
            r#""\u12""#,
            "\"\u{0}\"",
            "\"",
        ])
        .prop_map(str::to_owned),
    ];
    let leaf = prop_oneof![
        2 => string,
        2 => number(),
        1 => prop::sample::select(vec!["true", "false", "null", "True", "", "[]", "{}"]).prop_map(str::to_owned),
    ];
    let key = prop_oneof![3 => prop::sample::select(fields).prop_map(str::to_owned), 1 => word()];
    leaf.prop_recursive(6, 48, 8, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(|items| format!("[{}]", items.join(","))),
            vec((key.clone(), inner), 0..8).prop_map(|pairs| {
                let pairs: Vec<_> = pairs.into_iter().map(|(key, value)| format!("{}:{value}", quote(&key))).collect();
                format!("{{{}}}", pairs.join(","))
            }),
        ]
    })
}

/// A message of the right form. Each field has its usual text, and some are replaced by [`json`].
pub fn message(fields: &'static [(&'static str, &'static str)]) -> impl Strategy<Value = String> {
    let names: &'static [&'static str] = Box::leak(fields.iter().map(|(name, _)| *name).collect::<Vec<_>>().into());
    btree_map(0..fields.len(), json(names), 0..4).prop_map(move |odd| {
        let pairs = fields
            .iter()
            .enumerate()
            .map(|(at, (name, usual))| format!("{}:{}", quote(name), odd.get(&at).map_or(*usual, String::as_str)));
        format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
    })
}

/// Valid input with damage: bytes are changed, removed, cut off or repeated.
pub fn damaged(seed: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    (seed, vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..4), 0..6)).prop_map(|(mut bytes, wounds)| {
        for (at, byte, how) in wounds {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => drop(bytes.remove(at)),
                2 => bytes.truncate(at),
                _ => bytes.extend_from_within(at..),
            }
        }
        bytes
    })
}

fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c < ' ' => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
