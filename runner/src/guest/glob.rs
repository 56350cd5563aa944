//! Patterns for paths.

use std::fmt::Write;

use regex::bytes::{Regex, RegexBuilder};

use super::failure::because;
use crate::frames::Failure;

/// A pattern: `*`, `?` and `[a-z]` (or `[!a-z]`) within a name, `**` for any number of directories, and a backslash
/// before a character that stands for itself.
pub(super) struct Glob {
    regex: Regex,
    /// How many levels of directories it can match; `None` for any number.
    pub(super) depth: Option<u32>,
}

impl Glob {
    /// # Errors
    /// If the pattern has no meaning, such as `[z-a]`.
    pub(super) fn new(pattern: &str) -> Result<Self, Failure> {
        let bad = |e: regex::Error| because(pattern, libc::EINVAL, e.to_string());
        let regex = RegexBuilder::new(&translated(pattern)).dot_matches_new_line(true).build().map_err(bad)?;
        let levels = pattern.split('/').count();
        let depth = (!pattern.contains("**")).then(|| u32::try_from(levels).unwrap_or(u32::MAX));
        Ok(Self { regex, depth })
    }

    /// Whether it matches a whole path.
    pub(super) fn matches(&self, path: &[u8]) -> bool {
        self.regex.is_match(path)
    }
}

/// The regular expression for a pattern. Names need not be UTF-8.
fn translated(pattern: &str) -> String {
    let mut out = String::from(r"\A");
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = if let Some(after) = rest.strip_prefix("**/") {
            out.push_str(r"(?-u:(?:[^/]+/)*)");
            after
        } else if let Some(after) = rest.strip_prefix("**") {
            out.push_str(r"(?-u:.*)");
            after
        } else if c == '*' {
            out.push_str(r"(?-u:[^/]*)");
            after
        } else if c == '?' {
            out.push_str(r"(?:[^/]|(?-u:[^/]))");
            after
        } else if let Some((set, after)) = (c == '[').then(|| class(after)).flatten() {
            out.push_str(&set);
            after
        } else {
            let literal = if c == '\\' { after.chars().next().unwrap_or(c) } else { c };
            let _ = write!(out, "{}", regex::escape(literal.encode_utf8(&mut [0; 4])));
            if c == '\\' { after.get(literal.len_utf8()..).unwrap_or_default() } else { after }
        };
    }
    out + r"\z"
}

/// The set of characters at the front of `text`, which begins behind the bracket, and what follows the set. `None` if
/// the bracket is not closed.
fn class(text: &str) -> Option<(String, &str)> {
    let (not, text) = match text.strip_prefix(['!', '^']) {
        Some(text) => (true, text),
        None => (false, text),
    };
    // A bracket that comes first belongs to the set.
    let first = text.chars().next()?.len_utf8();
    let end = first + text.get(first..)?.find(']')?;
    let mut out = String::from(if not { "[^/" } else { "[" });
    for c in text[..end].chars() {
        if c == '-' {
            out.push(c);
        } else {
            out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
        }
    }
    out.push(']');
    Some((out, &text[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_paths() {
        for (pattern, path, matches) in [
            ("*.py", "a.py", true),
            ("*.py", "b/a.py", false),
            ("**/*.py", "a.py", true),
            ("**/*.py", "b/c/a.py", true),
            ("b/**", "b/c/a.py", true),
            ("b/**", "bc", false),
            ("?", "é", true),
            ("?", "ab", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[!a-c]x", "/x", false),
            ("[]]", "]", true),
            ("[", "[", true),
            ("[a", "[a", true),
            (r"\*", "*", true),
            (r"\*", "a", false),
            (r"a\", r"a\", true),
            ("a.b", "axb", false),
            ("{a,b}", "{a,b}", true),
            ("*", "a\nb", true),
            ("[&&x]", "&", true),
        ] {
            assert_eq!(Glob::new(pattern).unwrap().matches(path.as_bytes()), matches, "{pattern} {path}");
        }
        assert!(Glob::new("*x").unwrap().matches(b"\xff\xfex"));
        assert!(Glob::new("?").unwrap().matches(b"\xff"));
        assert_eq!(Glob::new("[z-a]").err().unwrap().errno, "EINVAL");
        assert_eq!((Glob::new("a/*").unwrap().depth, Glob::new("**").unwrap().depth), (Some(2), None));
    }
}
