//! What is wrong with a value that does not match a schema, for the model that made it: where, the value, and all that
//! is allowed there.

use std::fmt::{self, Write};

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::paths::{Location, LocationSegment};
use jsonschema::{JsonType, ValidationError};
use serde_json::Value;
use thermae_capabilities::Tree;

/// Characters that are shown of a value.
const LONGEST_VALUE: usize = 100;

/// Characters of a list of all values that are allowed, or of all keys that are not.
const LONGEST_LIST: usize = 1500;

/// Most unions within unions that are looked through.
const DEEPEST: usize = 8;

/// The place of the fault in the arguments, such as `order.items[2].n` (empty for the whole), and the fault.
pub(super) fn explain(error: &ValidationError<'_>, arguments: &Tree) -> (String, String) {
    let arguments = Some(arguments);
    let faults = deepest(error, DEEPEST);
    let [first, others @ ..] = faults.as_slice() else {
        return (place(error.instance_path()), fault(error, arguments));
    };
    let at = first.instance_path();
    if others.is_empty() {
        return (place(at), fault(first, arguments));
    }
    if others.iter().all(|other| other.instance_path() == at) {
        return (place(at), either(&faults, arguments));
    }
    let each = |one: &&ValidationError<'_>| format!("{}: {}", place(one.instance_path()), fault(one, arguments));
    (place(error.instance_path()), faults.iter().map(each).collect::<Vec<_>>().join("; or "))
}

/// The errors that a model should read in place of one that says "none of these". Those of the options whose type the
/// value has: it was meant for one of them.
fn deepest<'a, 'e>(error: &'a ValidationError<'e>, depth: usize) -> Vec<&'a ValidationError<'e>>
where
    'e: 'a,
    'static: 'e,
{
    let (Kind::AnyOf { context } | Kind::OneOfNotValid { context }) = error.kind() else { return vec![error] };
    if depth == 0 {
        return vec![error];
    }
    let at = error.instance_path();
    let fitting: Vec<_> =
        context.iter().filter(|errors| !errors.iter().any(|one| is_another(one, at, depth))).collect();
    // Of objects that are told apart by a constant key, those with the value's own.
    let tagged: Vec<_> = fitting.iter().copied().filter(|errors| !errors.iter().any(tag)).collect();
    let chosen = match () {
        () if !tagged.is_empty() => tagged,
        () if !fitting.is_empty() => fitting,
        () => context.iter().collect(),
    };
    chosen.into_iter().filter_map(|errors| errors.first()).flat_map(|one| deepest(one, depth - 1)).collect()
}

/// Whether an error says that the value at this place is something else altogether.
fn is_another(error: &ValidationError<'_>, at: &Location, depth: usize) -> bool {
    match error.kind() {
        Kind::Type { .. } | Kind::Constant { .. } | Kind::Enum { .. } => error.instance_path() == at,
        Kind::Custom { keyword, .. } if ["const", "enum"].contains(&keyword.as_str()) => error.instance_path() == at,
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } if depth > 0 => {
            context.iter().all(|errors| errors.iter().any(|one| is_another(one, at, depth - 1)))
        }
        _ => false,
    }
}

/// Whether an error is that of a constant.
fn tag(error: &ValidationError<'_>) -> bool {
    error.kind().keyword() == "const"
}

/// A fault of which several errors at one place tell: the value is none of what is allowed.
fn either(errors: &[&ValidationError<'_>], arguments: Option<&Tree>) -> String {
    let mut allowed: Vec<String> = Vec::new();
    for error in errors {
        let one = match error.kind() {
            Kind::Type { kind } => types(kind),
            Kind::Enum { options } => listed(options.as_array().into_iter().flatten()),
            Kind::Constant { expected_value } => brief(&expected_value.as_ref().into()),
            _ => return errors.iter().map(|one| fault(one, arguments)).collect::<Vec<_>>().join("; or "),
        };
        if !allowed.contains(&one) {
            allowed.push(one);
        }
    }
    format!("{} is not {}", shown(errors[0], arguments), allowed.join(" or "))
}

fn fault(error: &ValidationError<'_>, arguments: Option<&Tree>) -> String {
    let value = shown(error, arguments);
    match error.kind() {
        Kind::Type { kind } => format!("{value} is not {}", types(kind)),
        Kind::Enum { options } => format!("{value} is not one of {}", listed(options.as_array().into_iter().flatten())),
        Kind::Constant { expected_value } => format!("{value} is not {}", brief(&expected_value.as_ref().into())),
        Kind::Required { property } => format!("the key {property} is missing"),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let keys: Vec<_> = unexpected.iter().map(|key| Value::from(key.as_str())).collect();
            format!("unexpected: {}", listed(keys.iter()))
        }
        // The value of this error is the key.
        Kind::PropertyNames { error } => format!("the key {}", fault(error, None)),
        Kind::OneOfMultipleValid { .. } => format!("{value} fits more than one of the options, and must fit only one"),
        _ => error.masked_with(value).to_string(),
    }
}

/// The value that does not match, as the arguments have it: the error's own has rounded numbers.
fn shown(error: &ValidationError<'_>, arguments: Option<&Tree>) -> String {
    let exact = arguments.and_then(|whole| whole.at(error.instance_path().as_str()));
    exact.map_or_else(|| brief(&error.instance().as_ref().into()), brief)
}

/// The types that are allowed, as Python has them.
fn types(kind: &TypeKind) -> String {
    let name = |one: JsonType| match one {
        JsonType::Null => "None",
        JsonType::Boolean => "a bool",
        JsonType::Integer => "an integer",
        JsonType::Number => "a number",
        JsonType::String => "a string",
        JsonType::Array => "a list",
        JsonType::Object => "a dict",
    };
    match kind {
        TypeKind::Single(one) => name(*one).to_owned(),
        TypeKind::Multiple(several) => {
            let (nothing, mut names): (Vec<_>, Vec<_>) = several.iter().map(name).partition(|name| *name == "None");
            names.extend(nothing);
            names.join(" or ")
        }
    }
}

/// All of these values. If they are long, the first ones and how many more there are.
fn listed<'a>(values: impl Iterator<Item = &'a Value>) -> String {
    let (mut text, mut more) = (String::new(), 0);
    for value in values {
        if text.len() > LONGEST_LIST {
            more += 1;
        } else {
            let _ = write!(text, "{}{}", if text.is_empty() { "" } else { ", " }, brief(&value.into()));
        }
    }
    if more > 0 {
        let _ = write!(text, " and {more} more");
    }
    text
}

/// The place of a value as Python writes it.
fn place(location: &Location) -> String {
    let mut text = String::new();
    for segment in location {
        let _ = match segment {
            LocationSegment::Index(at) => write!(text, "[{at}]"),
            LocationSegment::Property(name) => {
                let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
                match plain {
                    true => write!(text, "{}{name}", if text.is_empty() { "" } else { "." }),
                    false => write!(text, "[{}]", Value::from(name.as_ref())),
                }
            }
        };
    }
    text
}

/// The beginning of a value's JSON, or of what Python has for it.
fn brief(value: &Tree) -> String {
    let mut beginning = Beginning { text: String::new(), left: LONGEST_VALUE };
    let whole = match value {
        Tree::Null => write!(beginning, "None"),
        Tree::Bool(true) => write!(beginning, "True"),
        Tree::Bool(false) => write!(beginning, "False"),
        value => write!(beginning, "{value}"),
    };
    beginning.text + if whole.is_ok() { "" } else { "…" }
}

/// Takes so many characters, and then no more.
struct Beginning {
    text: String,
    left: usize,
}

impl Write for Beginning {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let taken = text.char_indices().nth(self.left).map_or(text, |(at, _)| &text[..at]);
        self.left -= taken.chars().count();
        self.text.push_str(taken);
        if taken.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(schema: &Value, value: &Value) -> String {
        let validator = jsonschema::validator_for(schema).unwrap();
        let (at, why) = explain(&validator.validate(value).unwrap_err(), &value.into());
        format!("{at}: {why}")
    }

    #[test]
    fn a_fault_is_told_with_its_place_its_value_and_what_is_allowed() {
        let zip = json!({"type": "string", "pattern": "^\\d{5}$"});
        let address = json!({"type": "object", "properties": {"zip": zip}, "required": ["zip"]});
        let customer = json!({
            "type": "object",
            "properties": {"address": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}, "a b": {"type": "array", "items": zip}},
            "$defs": {"A": address},
            "additionalProperties": false,
        });
        let pets = json!({"oneOf": [
            {"properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}}},
            {"properties": {"kind": {"const": "dog"}, "bark": {"type": "string"}}},
        ]});
        let nested = json!({"anyOf": [{"type": "null"}, {"anyOf": [{"type": "array", "items": {"enum": [1, "x"]}}, {"type": "integer"}]}]});
        let many = json!({"enum": (0..1000).map(|n| format!("value {n}")).collect::<Vec<_>>()});
        for (schema, value, text) in [
            (&customer, json!({"address": {"zip": "1"}}), "address.zip: \"1\" does not match \"^\\d{5}$\""),
            (&customer, json!({"address": {}}), "address: the key \"zip\" is missing"),
            (&customer, json!({"address": 5}), "address: 5 is not a dict or None"),
            (&customer, json!({"a b": ["12345", "x"]}), "[\"a b\"][1]: \"x\" does not match \"^\\d{5}$\""),
            (&customer, json!({"adress": {}}), ": unexpected: \"adress\""),
            (&customer, json!([]), ": [] is not a dict"),
            (&customer, Value::Null, ": None is not a dict"),
            (&pets, json!({"kind": "dog", "bark": 3}), "bark: 3 is not a string"),
            (&pets, json!({"kind": "cow"}), "kind: \"cow\" is not \"cat\" or \"dog\""),
            (&nested, json!([1, "y"]), "[1]: \"y\" is not one of 1, \"x\""),
            (&nested, json!("y"), ": \"y\" is not None or a list or an integer"),
            (
                &json!({"enum": ["a", "b", "c", "d", "e"]}),
                json!("z"),
                ": \"z\" is not one of \"a\", \"b\", \"c\", \"d\", \"e\"",
            ),
            (&json!({"type": ["integer", "null"]}), json!("3"), ": \"3\" is not an integer or None"),
            (&json!({"propertyNames": {"pattern": "^a"}}), json!({"b": 1}), ": the key \"b\" does not match \"^a\""),
            (&json!({"maximum": 3}), json!(4), ": 4 is greater than the maximum of 3"),
            (
                &json!({"anyOf": [{"maximum": 3}, {"minimum": 9}]}),
                json!(4),
                ": 4 is greater than the maximum of 3; or 4 is less than the minimum of 9",
            ),
            (
                &json!({"oneOf": [{"type": "integer"}, {"minimum": 9}]}),
                json!(12),
                ": 12 fits more than one of the options, and must fit only one",
            ),
        ] {
            assert_eq!(told(schema, &value), text, "{schema} {value}");
        }
        assert!(told(&many, &json!("z")).ends_with(" more"), "{}", told(&many, &json!("z")));
        let long = told(&json!({"maxLength": 3}), &json!("é".repeat(1 << 20)));
        assert_eq!(long, format!(": \"{}… is longer than 3 characters", "é".repeat(LONGEST_VALUE - 1)));
    }
}
