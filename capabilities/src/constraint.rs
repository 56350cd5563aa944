//! Constraints on a call's arguments.
//!
//! A constraint has one form for each meaning: `{"path": "amount", "op": "<=", "value": 1000}`, `{"and": […]}` or
//! `{"or": […]}`. It holds only if its path leads to a value of the type that it is about:
//!
//! | `op` | `value` | holds if what is at the path |
//! | --- | --- | --- |
//! | `<` `<=` `>` `>=` | a number | is a number in this order to the value; exact, whatever the size |
//! | `==` | any JSON | is the same value; 1 is 1.0, and the order of keys does not count |
//! | `!=` | any JSON but null | has the value's type and is another value |
//! | `in` | a list | is one of the list's values |
//! | `not in` | a list without null | has the type of one of the list's values and is none of them |
//! | `starts` `ends` `contains` | a text | is a text that starts with, ends with or contains the value |
//! | `exists` | – | is anything but null |
//! | `not exists` | – | is nothing: an object lacks the key, or an array is shorter |
//!
//! Whoever gets a call may read each number with all its digits, or as the nearest float. So a constraint must hold
//! twice: as it is written, and with its own numbers and those of the arguments as floats ([`Constraint::rounded`]).
//!
//! Null counts as not given: only `==` and `in` that name null hold for it. `not exists` does not hold if the path
//! leads into a value that has no parts, such as a text: there, nobody knows what the tool would read.

use std::fmt;

use crate::exact::{Number, Tree};
use crate::path::{Found, Path};
use crate::refusal::quote;

/// What must be true of a call's arguments.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Constraint {
    /// This test of what is at this path.
    At(Path, Test),
    /// All of these.
    All(Vec<Constraint>),
    /// At least one of these.
    Any(Vec<Constraint>),
}

/// A test of what is at a path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Test {
    Less(Number),
    AtMost(Number),
    More(Number),
    AtLeast(Number),
    Equal(Tree),
    NotEqual(Tree),
    In(Vec<Tree>),
    NotIn(Vec<Tree>),
    Starts(String),
    Ends(String),
    Contains(String),
    Exists,
    NotExists,
}

/// A constraint that does not hold, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unmet {
    /// The constraint, cut if it is long.
    pub(crate) constraint: String,
    /// What is there instead, cut if it is long.
    pub(crate) actual: String,
}

impl Constraint {
    /// Checks the constraint on these arguments.
    ///
    /// # Errors
    /// It does not hold.
    pub(crate) fn check(&self, arguments: &Tree) -> Result<(), Unmet> {
        match self {
            Self::At(path, test) => {
                let found = path.find(arguments);
                if test.holds(found) {
                    return Ok(());
                }
                let actual = match found {
                    Found::Value(value) => format!("{path} is {}", quote(&value.to_string())),
                    Found::Nothing => format!("{path} is missing"),
                    Found::Blocked(value) => format!("{path} leads into {}", quote(&value.to_string())),
                };
                Err(Unmet { constraint: quote(&self.to_string()), actual })
            }
            Self::All(all) => all.iter().try_for_each(|constraint| constraint.check(arguments)),
            Self::Any(any) => {
                let mut actual = Vec::with_capacity(any.len());
                for constraint in any {
                    match constraint.check(arguments) {
                        Ok(()) => return Ok(()),
                        Err(unmet) if !actual.contains(&unmet.actual) => actual.push(unmet.actual),
                        Err(_) => {}
                    }
                }
                Err(Unmet { constraint: quote(&self.to_string()), actual: quote(&actual.join(", ")) })
            }
        }
    }

    /// The constraint for arguments whose numbers are rounded: so are its own, or nothing would be equal to an integer
    /// of more than 64 bits.
    pub(crate) fn rounded(&self) -> Self {
        let all = |list: &[Self]| list.iter().map(Self::rounded).collect();
        match self {
            Self::At(path, test) => Self::At(path.clone(), test.rounded()),
            Self::All(list) => Self::All(all(list)),
            Self::Any(list) => Self::Any(all(list)),
        }
    }

    /// The constraint as JSON, in the form in which it is read.
    pub(crate) fn to_json(&self) -> Tree {
        let list = |list: &[Self]| Tree::List(list.iter().map(Self::to_json).collect());
        match self {
            Self::At(path, test) => {
                let (path, op) = (path.to_string().as_str().into(), test.op().into());
                match test.value() {
                    Some(value) => [("path", path), ("op", op), ("value", value)].into(),
                    None => [("path", path), ("op", op)].into(),
                }
            }
            Self::All(all) => [("and", list(all))].into(),
            Self::Any(any) => [("or", list(any))].into(),
        }
    }
}

impl Test {
    /// Every operator, as it is written.
    pub(crate) const OPS: [&'static str; 13] =
        ["<", "<=", ">", ">=", "==", "!=", "in", "not in", "starts", "ends", "contains", "exists", "not exists"];

    /// Whether the test holds for what is at a path.
    pub(crate) fn holds(&self, found: Found<'_>) -> bool {
        match found {
            Found::Value(value) => self.holds_for(value),
            Found::Nothing => matches!(self, Self::NotExists),
            Found::Blocked(_) => false,
        }
    }

    /// Whether the test holds for this value.
    pub(crate) fn holds_for(&self, value: &Tree) -> bool {
        let number = |holds: &dyn Fn(&Number) -> bool| matches!(value, Tree::Number(n) if holds(n));
        let text = |holds: &dyn Fn(&str) -> bool| matches!(value, Tree::Text(s) if holds(s));
        match self {
            Self::Less(bound) => number(&|n| n < bound),
            Self::AtMost(bound) => number(&|n| n <= bound),
            Self::More(bound) => number(&|n| n > bound),
            Self::AtLeast(bound) => number(&|n| n >= bound),
            Self::Equal(wanted) => value == wanted,
            Self::NotEqual(other) => value.has_type_of(other) && value != other,
            Self::In(list) => list.contains(value),
            Self::NotIn(list) => list.iter().any(|other| value.has_type_of(other)) && !list.contains(value),
            Self::Starts(start) => text(&|s| s.starts_with(start)),
            Self::Ends(end) => text(&|s| s.ends_with(end)),
            Self::Contains(part) => text(&|s| s.contains(part)),
            Self::Exists => *value != Tree::Null,
            Self::NotExists => false,
        }
    }

    fn rounded(&self) -> Self {
        let all = |list: &[Tree]| list.iter().map(Tree::rounded).collect();
        match self {
            Self::Less(bound) => Self::Less(bound.rounded()),
            Self::AtMost(bound) => Self::AtMost(bound.rounded()),
            Self::More(bound) => Self::More(bound.rounded()),
            Self::AtLeast(bound) => Self::AtLeast(bound.rounded()),
            Self::Equal(value) => Self::Equal(value.rounded()),
            Self::NotEqual(value) => Self::NotEqual(value.rounded()),
            Self::In(list) => Self::In(all(list)),
            Self::NotIn(list) => Self::NotIn(all(list)),
            Self::Starts(_) | Self::Ends(_) | Self::Contains(_) | Self::Exists | Self::NotExists => self.clone(),
        }
    }

    /// The operator, as it is written.
    pub(crate) fn op(&self) -> &'static str {
        match self {
            Self::Less(_) => "<",
            Self::AtMost(_) => "<=",
            Self::More(_) => ">",
            Self::AtLeast(_) => ">=",
            Self::Equal(_) => "==",
            Self::NotEqual(_) => "!=",
            Self::In(_) => "in",
            Self::NotIn(_) => "not in",
            Self::Starts(_) => "starts",
            Self::Ends(_) => "ends",
            Self::Contains(_) => "contains",
            Self::Exists => "exists",
            Self::NotExists => "not exists",
        }
    }

    /// The value beside the operator.
    pub(crate) fn value(&self) -> Option<Tree> {
        match self {
            Self::Less(n) | Self::AtMost(n) | Self::More(n) | Self::AtLeast(n) => Some(Tree::Number(n.clone())),
            Self::Equal(value) | Self::NotEqual(value) => Some(value.clone()),
            Self::In(list) | Self::NotIn(list) => Some(Tree::List(list.clone())),
            Self::Starts(text) | Self::Ends(text) | Self::Contains(text) => Some(Tree::Text(text.clone())),
            Self::Exists | Self::NotExists => None,
        }
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (list, word) = match self {
            Self::At(path, test) => {
                write!(f, "{path} {}", test.op())?;
                return test.value().map_or(Ok(()), |value| write!(f, " {value}"));
            }
            Self::All(all) => (all, "and"),
            Self::Any(any) => (any, "or"),
        };
        for (at, constraint) in list.iter().enumerate() {
            if at > 0 {
                write!(f, " {word} ")?;
            }
            match constraint {
                Self::At(..) => write!(f, "{constraint}")?,
                _ => write!(f, "({constraint})")?,
            }
        }
        Ok(())
    }
}
