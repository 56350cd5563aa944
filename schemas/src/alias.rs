//! How the name of a tool becomes the name by which the code calls it. The command line, the scheduler and the worker
//! all use this one rule.

use std::collections::HashMap;

use unicode_ident::{is_xid_continue, is_xid_start};

/// Python's keywords. A tool with such a name gets a `_` after it.
const RESERVED: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// Names that every program in Python has of its own, in whichever version. They are sorted.
#[rustfmt::skip]
const BUILTINS: &[&str] = &[
    "ArithmeticError", "AssertionError", "AttributeError", "BaseException", "BaseExceptionGroup", "BlockingIOError",
    "BrokenPipeError", "BufferError", "BytesWarning", "ChildProcessError", "ConnectionAbortedError",
    "ConnectionError", "ConnectionRefusedError", "ConnectionResetError", "DeprecationWarning", "EOFError", "Ellipsis",
    "EncodingWarning", "EnvironmentError", "Exception", "ExceptionGroup", "FileExistsError", "FileNotFoundError",
    "FloatingPointError", "FutureWarning", "GeneratorExit", "IOError", "ImportError", "ImportWarning",
    "IndentationError", "IndexError", "InterruptedError", "IsADirectoryError", "KeyError", "KeyboardInterrupt",
    "LookupError", "MemoryError", "ModuleNotFoundError", "NameError", "NotADirectoryError", "NotImplemented",
    "NotImplementedError", "OSError", "OverflowError", "PendingDeprecationWarning", "PermissionError",
    "ProcessLookupError", "PythonFinalizationError", "RecursionError", "ReferenceError", "ResourceWarning",
    "RuntimeError", "RuntimeWarning", "StopAsyncIteration", "StopIteration", "SyntaxError", "SyntaxWarning",
    "SystemError", "SystemExit", "TabError", "TimeoutError", "ToolError", "TypeError", "UnboundLocalError",
    "UnicodeDecodeError", "UnicodeEncodeError", "UnicodeError", "UnicodeTranslateError", "UnicodeWarning",
    "UserWarning", "ValueError", "Warning", "ZeroDivisionError", "abs", "aiter", "all", "anext", "any", "ascii",
    "bin", "bool", "breakpoint", "bytearray", "bytes", "callable", "chr", "classmethod", "compile", "complex",
    "delattr", "dict", "dir", "display", "divmod", "enumerate", "eval", "exec", "exit", "filter", "float", "format",
    "frozenset", "getattr", "globals", "hasattr", "hash", "help", "hex", "id", "input", "int", "isinstance",
    "issubclass", "iter", "len", "list", "locals", "map", "max", "memoryview", "min", "next", "object", "oct", "open",
    "ord", "pow", "print", "property", "quit", "range", "repr", "reversed", "round", "set", "setattr", "slice",
    "sorted", "staticmethod", "str", "sum", "super", "tools", "tuple", "type", "vars", "zip",
];

/// The name of Python's own, such as `print`, that a tool of this name would take from programs. A tool can't have it.
pub fn hides(name: &str) -> Option<&'static str> {
    let alias = alias(name);
    BUILTINS.binary_search(&alias.as_str()).ok().map(|at| BUILTINS[at])
}

/// Whether a name is a keyword of Python.
pub(crate) fn is_keyword(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// The name by which the code calls the tool `name`. Every character that can't be part of an identifier becomes `_`. If
/// the result is empty or begins with a digit, a `_` is put before it. If the result is a keyword of Python, a `_` is
/// put after it. (The package for Python has the same rule, for its documentation of tools.)
pub fn alias(name: &str) -> String {
    let mut alias: String = name.chars().map(|c| if is_xid_continue(c) { c } else { '_' }).collect();
    if !alias.starts_with(|c: char| is_xid_start(c) || c == '_') {
        alias.insert(0, '_');
    }
    if is_keyword(&alias) {
        alias.push('_');
    }
    alias
}

/// Two tools that have the same name in the code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AliasClash {
    /// Position of the second tool in the list, from 0.
    pub at: usize,
    /// Name of the first tool.
    pub first: String,
    /// Name of the second tool.
    pub second: String,
    /// The name that both have in the code.
    pub alias: String,
}

/// The first two tools of the list that have the same name in the code. `None` if all names differ.
pub fn alias_clash<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<AliasClash> {
    let mut seen = HashMap::new();
    names.into_iter().enumerate().find_map(|(at, second)| {
        let alias = alias(second);
        let first = *seen.entry(alias.clone()).or_insert((at, second));
        (first.0 != at).then(|| AliasClash { at, first: first.1.to_owned(), second: second.to_owned(), alias })
    })
}

/// Examples of the rule: a tool's name, and its name in the code. Every crate that uses the rule tests them.
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
    ("x²", "x_"),
    ("٣x", "_٣x"),
    ("imprint", "imprint"),
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
    fn no_tool_hides_what_is_pythons_own() {
        assert!(BUILTINS.is_sorted());
        for name in ["print", "sum", "open", "ValueError", "tools", "display", "ToolError", "aiter", "exit"] {
            assert_eq!(hides(name), Some(name));
        }
        for name in ["imprint", "get_sales", "class", "Print", "print_", "pr-int", "license", ""] {
            assert_eq!(hides(name), None, "{name}");
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
