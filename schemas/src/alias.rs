//! The name by which code calls a tool. One rule, for the command line, the scheduler and the worker.

use std::collections::HashMap;

/// Python's reserved words: a tool of such a name gets a `_` behind it.
const RESERVED: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// A tool's name in the code: every character that is neither a letter, a digit nor `_` becomes `_`; a digit in front, or an empty
/// name, gets a `_` before it; a reserved word of Python gets a `_` behind it.
pub fn alias(name: &str) -> String {
    let mut alias: String = name.chars().map(|c| if c.is_alphanumeric() || c == '_' { c } else { '_' }).collect();
    if alias.starts_with(|c: char| c.is_numeric()) || alias.is_empty() {
        alias.insert(0, '_');
    }
    if RESERVED.contains(&alias.as_str()) {
        alias.push('_');
    }
    alias
}

/// Two tools that have one name in the code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AliasClash {
    /// Position of the second among the names.
    pub at: usize,
    /// Name of the tool that came first.
    pub first: String,
    /// Name of the second.
    pub second: String,
    /// What both are called in the code.
    pub alias: String,
}

/// The first two of these names that are one in the code, if any are.
pub fn alias_clash<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<AliasClash> {
    let mut seen = HashMap::new();
    names.into_iter().enumerate().find_map(|(at, second)| {
        let alias = alias(second);
        let first = *seen.entry(alias.clone()).or_insert((at, second));
        (first.0 != at).then(|| AliasClash { at, first: first.1.to_owned(), second: second.to_owned(), alias })
    })
}

/// Cases of the rule: a name, and what the code calls it. Tests of all who use it go through them.
pub const ALIAS_CASES: &[(&str, &str)] = &[
    ("get_sales", "get_sales"),
    ("a-b.c/d", "a_b_c_d"),
    ("2x", "_2x"),
    ("_2x", "_2x"),
    ("class", "class_"),
    ("class_", "class_"),
    ("Class", "Class"),
    ("größe", "größe"),
    ("gr e", "gr_e"),
    ("print", "print"),
    ("-", "_"),
    ("", "_"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_identifiers() {
        for (name, expected) in ALIAS_CASES {
            assert_eq!(alias(name), *expected, "{name}");
        }
    }

    #[test]
    fn every_two_cases_of_one_alias_clash_and_no_others() {
        for (first, one) in ALIAS_CASES {
            for (second, other) in ALIAS_CASES {
                let clash = alias_clash(["unlike", first, second]);
                assert_eq!(clash.is_some(), one == other, "{first:?} and {second:?}");
                if let Some(clash) = clash {
                    assert_eq!((clash.at, clash.alias.as_str()), (2, *one));
                }
            }
        }
    }
}
