//! Reads a set of capabilities. Whatever is not exactly in its form is refused, with its place.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};

use crate::bound::{
    DEEPEST_CONSTRAINT, LARGEST_SCHEMA, LARGEST_SET, LARGEST_VALUE, MOST_CAPABILITIES, MOST_CONSTRAINTS, MOST_LISTED,
};
use crate::constraint::{Constraint, Test};
use crate::exact::{Number, Tree};
use crate::path::Path;
use crate::refusal::quote;
use crate::{Approval, Capability, Malformed, Pattern, Set, Why};

/// The field in which a set stands.
const ROOT: &str = "capabilities";

/// The fields of a capability, for an error.
const FIELDS: &str = "pattern, constraints, max_calls, arguments, result, max_argument_bytes, max_result_bytes, \
                      timeout_ms, approval";

/// The fields of an approval, for an error.
const APPROVAL: &str = "next, timeout_ms";

/// The fields of a constraint, for an error.
const CONSTRAINT: &str = "path, op and value; or only \"and\"; or only \"or\"";

/// What must stand for a constraint.
const FORM: &str = "an object such as {\"path\": \"amount\", \"op\": \"<=\", \"value\": 1000}";

type Result<T> = std::result::Result<T, Malformed>;

fn bad<T>(at: impl Into<String>, why: impl Into<Why>) -> Result<T> {
    Err(Malformed { at: at.into(), why: why.into() })
}

fn wrong<T>(at: impl Into<String>, wanted: &'static str, found: &Tree) -> Result<T> {
    let found = match found {
        Tree::Null => "null".to_owned(),
        Tree::List(_) => "a list".to_owned(),
        Tree::Object(_) => "an object".to_owned(),
        scalar => quote(&scalar.to_string()),
    };
    bad(at, Why::Type { wanted, found })
}

/// Reads a set: a JSON array of capabilities.
pub(crate) fn set(text: &str) -> Result<Set> {
    if text.len() > LARGEST_SET {
        return bad(ROOT, Why::LargeSet);
    }
    let value = Tree::read(text).or_else(|error| bad(ROOT, Why::Unreadable(error)))?;
    let Tree::List(items) = value else { return wrong(ROOT, "a list of capabilities", &value) };
    if items.len() > MOST_CAPABILITIES {
        return bad(ROOT, Why::Capabilities);
    }
    let items = items.into_iter().enumerate();
    let capabilities = items.map(|(n, item)| capability(item, &format!("{ROOT}[{n}]"))).collect::<Result<_>>()?;
    Ok(Set { capabilities })
}

fn capability(value: Tree, at: &str) -> Result<Capability> {
    let Tree::Object(mut map) = value else {
        return wrong(at, "an object such as {\"pattern\": \"transfer\", \"max_calls\": 3}", &value);
    };
    let in_field = |field: &str| format!("{at}.{field}");
    let Some(pattern) = map.remove("pattern") else { return bad(at, Why::Missing("pattern")) };
    let Tree::Text(text) = &pattern else { return wrong(in_field("pattern"), "a text", &pattern) };
    let pattern = Pattern::new(text).or_else(|why| bad(in_field("pattern"), why))?;
    let constraints = match map.remove("constraints") {
        None => Vec::new(),
        Some(value) => Reader::default().list(value, &in_field("constraints"), 0)?,
    };
    let mut schema = |field: &str| map.remove(field).map(|value| json_schema(value, &in_field(field))).transpose();
    let (arguments, result) = (schema("arguments")?, schema("result")?);
    let approval = map.remove("approval").map(|value| approval(value, &in_field("approval"))).transpose()?;
    let max_calls = map.remove("max_calls").map(|value| calls(&value, &in_field("max_calls"))).transpose()?;
    let mut count = |field: &str| map.remove(field).map(|value| count(&value, &in_field(field))).transpose();
    let (max_argument_bytes, max_result_bytes) = (count("max_argument_bytes")?, count("max_result_bytes")?);
    let timeout_ms = count("timeout_ms")?;
    nothing_else(&map, at, FIELDS)?;
    let rounded: Vec<_> = constraints.iter().map(Constraint::rounded).collect();
    Ok(Capability {
        pattern,
        rounded: (rounded != constraints).then_some(rounded),
        constraints,
        max_calls,
        arguments,
        result,
        max_argument_bytes,
        max_result_bytes,
        timeout_ms,
        approval,
    })
}

fn approval(value: Tree, at: &str) -> Result<Approval> {
    let Tree::Object(mut map) = value else { return wrong(at, "an object such as {\"next\": 5}", &value) };
    let in_field = |field: &str| format!("{at}.{field}");
    let next = map.remove("next").map(|value| calls(&value, &in_field("next"))).transpose()?;
    let timeout_ms = map.remove("timeout_ms").map(|value| count(&value, &in_field("timeout_ms"))).transpose()?;
    nothing_else(&map, at, APPROVAL)?;
    Ok(Approval { next: next.unwrap_or(NonZeroU32::MIN), timeout_ms })
}

fn nothing_else(rest: &BTreeMap<String, Tree>, at: &str, known: &'static str) -> Result<()> {
    match rest.keys().next() {
        Some(field) => bad(at, Why::UnknownField { field: quote(&format!("{field:?}")), known }),
        None => Ok(()),
    }
}

/// A whole number from 1 on, however it is written: 3.0 is 3.
fn count(value: &Tree, at: &str) -> Result<NonZeroU64> {
    whole(value, at, "at most 18446744073709551615")
}

/// A number of calls.
fn calls(value: &Tree, at: &str) -> Result<NonZeroU32> {
    whole(value, at, "at most 4294967295")
}

/// A whole number from 1 on that is not too large. `most` says how large it may be.
fn whole<T: TryFrom<NonZeroU64>>(value: &Tree, at: &str, most: &'static str) -> Result<T> {
    let number = match value {
        Tree::Number(number) if number.is_integer() && *number >= Number::from(1) => number,
        _ => return wrong(at, "a whole number from 1 on", value),
    };
    let whole = number.as_u64().and_then(NonZeroU64::new).and_then(|whole| whole.try_into().ok());
    whole.map_or_else(|| wrong(at, most, value), Ok)
}

fn json_schema(value: Tree, at: &str) -> Result<Tree> {
    if !matches!(value, Tree::Object(_)) {
        return wrong(at, "a JSON Schema, which is an object", &value);
    }
    if value.to_string().len() > LARGEST_SCHEMA {
        return bad(at, Why::LargeSchema);
    }
    Ok(value)
}

/// Reads the constraints of one capability, and counts them.
#[derive(Default)]
struct Reader {
    read: usize,
}

impl Reader {
    fn list(&mut self, value: Tree, at: &str, depth: usize) -> Result<Vec<Constraint>> {
        let Tree::List(items) = value else { return wrong(at, "a list of constraints", &value) };
        if items.is_empty() {
            return bad(at, Why::Empty("leave the list out, or say what must hold"));
        }
        let items = items.into_iter().enumerate();
        items.map(|(n, item)| self.one(item, &format!("{at}[{n}]"), depth)).collect()
    }

    fn one(&mut self, value: Tree, at: &str, depth: usize) -> Result<Constraint> {
        self.read += 1;
        if self.read > MOST_CONSTRAINTS {
            return bad(at, Why::Constraints);
        }
        let Tree::Object(mut map) = value else { return wrong(at, FORM, &value) };
        let group = [("and", Constraint::All as fn(_) -> _), ("or", Constraint::Any)];
        for (word, make) in group {
            if let Some(list) = map.remove(word) {
                nothing_else(&map, at, CONSTRAINT)?;
                if depth == DEEPEST_CONSTRAINT {
                    return bad(at, Why::Deep);
                }
                return self.list(list, &format!("{at}.{word}"), depth + 1).map(make);
            }
        }
        let Some(path) = map.remove("path") else { return bad(at, Why::Missing("path")) };
        let Some(op) = map.remove("op") else { return bad(at, Why::Missing("op")) };
        let value = map.remove("value");
        nothing_else(&map, at, CONSTRAINT)?;
        let Tree::Text(text) = &path else { return wrong(format!("{at}.path"), "a text", &path) };
        let path = Path::new(text).or_else(|why| bad(format!("{at}.path"), why))?;
        Ok(Constraint::At(path, test(&op, value, at)?))
    }
}

fn test(op: &Tree, value: Option<Tree>, at: &str) -> Result<Test> {
    let at_op = || format!("{at}.op");
    let Tree::Text(text) = op else { return wrong(at_op(), "a text", op) };
    let Some(op) = Test::OPS.into_iter().find(|known| known == text) else {
        return bad(at_op(), Why::UnknownOp { op: quote(&format!("{text:?}")), known: Test::OPS.join(", ") });
    };
    let at = format!("{at}.value");
    if let "exists" | "not exists" = op {
        return match value {
            Some(_) => bad(at, Why::NeedlessValue(op)),
            None if op == "exists" => Ok(Test::Exists),
            None => Ok(Test::NotExists),
        };
    }
    let Some(value) = value else { return bad(at.trim_end_matches(".value"), Why::Missing("value")) };
    if value.to_string().len() > LARGEST_VALUE {
        return bad(at, Why::LargeValue);
    }
    match op {
        "==" => Ok(Test::Equal(value)),
        "!=" if value == Tree::Null => bad(at, Why::NotNull("!=")),
        "!=" => Ok(Test::NotEqual(value)),
        "in" => listed(value, &at).map(Test::In),
        "not in" => match listed(value, &at)? {
            list if list.contains(&Tree::Null) => bad(at, Why::NotNull("not in")),
            list => Ok(Test::NotIn(list)),
        },
        "starts" | "ends" | "contains" => {
            let Tree::Text(part) = value else { return wrong(at, "a text", &value) };
            match op {
                _ if part.is_empty() => bad(at, Why::Empty("every text starts with, ends with and contains it")),
                "starts" => Ok(Test::Starts(part)),
                "ends" => Ok(Test::Ends(part)),
                _ => Ok(Test::Contains(part)),
            }
        }
        _ => {
            let Tree::Number(bound) = value else { return wrong(at, "a number", &value) };
            Ok(match op {
                "<" => Test::Less(bound),
                "<=" => Test::AtMost(bound),
                ">" => Test::More(bound),
                _ => Test::AtLeast(bound),
            })
        }
    }
}

fn listed(value: Tree, at: &str) -> Result<Vec<Tree>> {
    let Tree::List(list) = value else { return wrong(at, "a list of values", &value) };
    match list.len() {
        0 => bad(at, Why::Empty("name the values")),
        1..=MOST_LISTED => Ok(list),
        _ => bad(at, Why::Listed),
    }
}
