//! Paths to a part of a call's arguments: `a/b/0`.

use std::fmt;

use crate::exact::Tree;
use crate::{LONGEST_PATH, MOST_STEPS};

/// The way to a part of a call's arguments: keys of objects and positions in arrays, separated by `/`. In a key, `~1`
/// stands for `/` and `~0` for `~`, as in a JSON Pointer.
///
/// A segment of digits is a key if it meets an object, and a position, from 0, if it meets an array. A segment that
/// looks like a negative or padded position is refused, because some read it as one: such keys can't be constrained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    steps: Vec<String>,
}

/// Why a text is not a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPath {
    /// Nothing is in it.
    #[error("is empty; name an argument")]
    Empty,
    /// It begins with a slash.
    #[error("begins with a slash; write \"a/b\", not \"/a/b\"")]
    Leading,
    /// A segment is empty.
    #[error("has an empty segment")]
    EmptySegment,
    /// A tilde is neither `~0` nor `~1`.
    #[error("has a ~ that is neither ~0 (for ~) nor ~1 (for /)")]
    Tilde,
    /// A segment looks like a position, but is none.
    #[error("has the segment {0:?}; positions count from 0, without a sign and without zeros before them")]
    Position(String),
    /// It is longer than a path may be.
    #[error("has more than {LONGEST_PATH} characters")]
    Long,
    /// It has more segments than a path may have.
    #[error("has more than {MOST_STEPS} segments")]
    Steps,
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Found<'a> {
    /// This value.
    Value(&'a Tree),
    /// Nothing: an object lacks the key, or an array is shorter.
    Nothing,
    /// The path leads into something that is neither an object nor an array, or asks an array for a key.
    Blocked(&'a Tree),
}

impl Path {
    /// Reads a path.
    ///
    /// # Errors
    /// The text is not a path.
    pub(crate) fn new(text: &str) -> Result<Self, BadPath> {
        if text.is_empty() {
            return Err(BadPath::Empty);
        }
        if text.chars().count() > LONGEST_PATH {
            return Err(BadPath::Long);
        }
        if text.starts_with('/') {
            return Err(BadPath::Leading);
        }
        let steps: Vec<_> = text.split('/').map(step).collect::<Result<_, _>>()?;
        if steps.len() > MOST_STEPS { Err(BadPath::Steps) } else { Ok(Self { steps }) }
    }

    /// What is at this path in these arguments.
    pub(crate) fn find<'a>(&self, arguments: &'a Tree) -> Found<'a> {
        let mut at = arguments;
        for step in &self.steps {
            let below = match (at, position(step)) {
                (Tree::Object(map), _) => map.get(step),
                (Tree::List(items), Some(position)) => items.get(position),
                _ => return Found::Blocked(at),
            };
            match below {
                Some(value) => at = value,
                None => return Found::Nothing,
            }
        }
        Found::Value(at)
    }
}

fn step(text: &str) -> Result<String, BadPath> {
    if text.is_empty() {
        return Err(BadPath::EmptySegment);
    }
    let digits = text.trim_start_matches(['-', '+']);
    let like_a_position = !digits.is_empty() && digits.chars().all(char::is_numeric);
    if like_a_position && position(text).is_none() {
        return Err(BadPath::Position(text.to_owned()));
    }
    if text.split('~').skip(1).any(|after| !after.starts_with(['0', '1'])) {
        return Err(BadPath::Tilde);
    }
    Ok(text.replace("~1", "/").replace("~0", "~"))
}

/// The position that a segment names: digits, without zeros before them.
fn position(step: &str) -> Option<usize> {
    let canonical = step == "0" || !step.starts_with('0');
    (canonical && step.bytes().all(|b| b.is_ascii_digit())).then(|| step.parse().ok()).flatten()
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.steps.iter().enumerate() {
            let slash = if at == 0 { "" } else { "/" };
            write!(f, "{slash}{}", step.replace('~', "~0").replace('/', "~1"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_leads_to_a_value_or_says_why_not() {
        let arguments = Tree::from(
            &json!({"a": {"b": [10, {"c": null}]}, "x/y": 1, "m~n": 2, "~1": 3, "0": {"1": 4}, "s": "text"}),
        );
        let at = |path: &str| Path::new(path).unwrap().find(&arguments);
        for (path, value) in [
            ("a/b/0", json!(10)),
            ("a/b/1/c", json!(null)),
            ("x~1y", json!(1)),
            ("m~0n", json!(2)),
            ("~01", json!(3)),
            ("0/1", json!(4)),
        ] {
            assert_eq!(at(path), Found::Value(&(&value).into()), "{path}");
            assert_eq!(Path::new(path).unwrap().to_string(), path);
        }
        for path in ["b", "a/c", "a/b/2", "a/b/1/d", "x", "0/0"] {
            assert_eq!(at(path), Found::Nothing, "{path}");
        }
        for path in ["s/0", "s/length", "a/b/b", "a/b/0/0", "a/b/1/c/d", "a/b/-"] {
            assert!(matches!(at(path), Found::Blocked(_)), "{path}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for (bad, why) in [
            ("", BadPath::Empty),
            ("/a", BadPath::Leading),
            ("/", BadPath::Leading),
            ("a/", BadPath::EmptySegment),
            ("a//b", BadPath::EmptySegment),
            ("a~b", BadPath::Tilde),
            ("a~", BadPath::Tilde),
            ("~2", BadPath::Tilde),
            ("a/-1", BadPath::Position("-1".into())),
            ("a/+1", BadPath::Position("+1".into())),
            ("a/01", BadPath::Position("01".into())),
            ("a/00", BadPath::Position("00".into())),
            ("a/\u{661}", BadPath::Position("\u{661}".into())),
            ("a/99999999999999999999", BadPath::Position("99999999999999999999".into())),
        ] {
            assert_eq!(Path::new(bad), Err(why), "{bad:?}");
        }
        assert_eq!(Path::new(&"a".repeat(LONGEST_PATH + 1)), Err(BadPath::Long));
        assert_eq!(Path::new(&vec!["a"; MOST_STEPS + 1].join("/")), Err(BadPath::Steps));
    }
}
