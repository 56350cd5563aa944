//! The input schemas of tools. Schemas come from the client and arguments from the code. Neither may cost the worker
//! too much.
//!
//! References make a schema a graph. A walk through the graph can be endless, deeper than the stack, or as long as two
//! to the power of the arguments' depth. So every target of a reference is marked with a keyword of our own. This
//! keyword counts the visits, and ends the check if there are too many. A schema is refused if its references could
//! lead past the marks, or if it is deeper than a stack should go.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use jsonschema::json::Json;
use jsonschema::paths::Location;
use jsonschema::{Draft, Keyword, PatternOptions, Retrieve, ValidationError, ValidationOptions, Validator};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};
use thermae_capabilities::Tree;

use super::exact::{Exact, Numbers, Rule};
use super::explain::explain;
use super::pattern;

/// The keyword that counts visits. Its value is the cost of one visit.
const COST: &str = "x-thermae-cost";

/// Most levels on the longest path through a schema, across all references.
const DEEPEST: usize = 1000;

/// The budget of any check. Each visit to the target of a reference costs as much as the target has values.
const BUDGET: u64 = 1 << 19;

/// What each byte of the arguments adds to the budget: honest checks visit each value a few times, and each value has
/// some bytes.
const BUDGET_PER_BYTE: u64 = 64;

/// The most that arguments of any length add. It amounts to seconds.
const LARGEST_ADDITION: u64 = 1 << 26;

/// Keywords that refer to another schema.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Steps back that an engine may take in one match.
const STEPS_BACK: usize = 100_000;

/// The memory that the patterns of a job's tools may take together, in bytes. Each of about 14 patterns can allow text
/// of up to a hundred letters (`\p{L}{1,100}`).
const PATTERN_BYTES: u64 = 64 << 20;

/// Longest text of an error, in characters.
const LONGEST: usize = 2000;

thread_local! {
    /// What is left of the budget of the check on this thread.
    static LEFT: Cell<u64> = const { Cell::new(0) };
}

/// Options of a validator of arguments in this form.
type Options<'i, J> = ValidationOptions<'i, Arc<dyn Retrieve>, J>;

/// Why a schema can't be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("its references may lead {0} levels deep; at most {DEEPEST} are allowed")]
    Deep(usize),
    #[error("the reference \"#{0}\" leads in a circle")]
    Circle(String),
    #[error("the reference \"#{0}\" points at nothing")]
    Dangling(String),
    #[error("the reference {0:?} points outside the schema")]
    Outside(String),
    #[error("{0:?} is allowed only at the schema's root")]
    Identity(&'static str),
    #[error("its \"$schema\" is {0}, and not a draft of JSON Schema from 4 to 2020-12")]
    Draft(String),
    #[error("the keyword {COST:?} is reserved for the fleet")]
    Reserved,
    /// No engine reads the pattern as ECMA-262 means it.
    #[error("the pattern {0:?} can't be read: {1}")]
    Pattern(String, String),
    #[error("its patterns repeat too much: they would take {} of memory, and {} are left; shorten them", mib(*.0), mib(*.1))]
    Large(u64, u64),
    /// It is not JSON, or has several readings.
    #[error(transparent)]
    Unreadable(#[from] serde_json::Error),
    /// It is not a schema. `at` is the place; nothing for the whole.
    #[error("{at}{}{why}", if at.is_empty() { "" } else { ": " })]
    Invalid { at: String, why: String },
}

impl Error {
    /// The error's text, cut to [`LONGEST`] characters, because it may quote the schema.
    pub(super) fn brief(&self) -> String {
        cut(&self.to_string()).to_owned()
    }
}

/// Why arguments do not pass a check. The text is for the code.
#[derive(Debug, thiserror::Error)]
pub(super) enum Mismatch {
    /// A value is not as the schema wants it. `at` is the value's place; nothing for the arguments as a whole.
    #[error("do not match its input schema{}{at}: {why}", if at.is_empty() { "" } else { " at " })]
    Value { at: String, why: String },
    /// The budget is used up.
    #[error("take too long to check against its input schema")]
    TooLong,
}

impl Mismatch {
    /// What does not match and where, without a subject.
    pub(super) fn why(&self) -> String {
        match self {
            Self::Value { at, why } if at.is_empty() => why.clone(),
            Self::Value { at, why } => format!("at {at}: {why}"),
            Self::TooLong => "it takes too long to check".to_owned(),
        }
    }
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// What the patterns of a job's tools may still take of memory, in bytes.
#[derive(Debug)]
pub(super) struct Room(u64);

impl Default for Room {
    fn default() -> Self {
        Self(PATTERN_BYTES)
    }
}

impl Room {
    fn take(&mut self, bytes: u64) -> Result<(), Error> {
        self.0 = self.0.checked_sub(bytes).ok_or(Error::Large(bytes, self.0))?;
        Ok(())
    }
}

/// One tool's input schema.
pub(super) struct Schema {
    validator: Validator<Exact>,
    /// Number of values in the schema. `None` if it has references or anchors, because a check may then take as long as
    /// its budget allows.
    size: Option<usize>,
    patterns: Patterns,
}

impl Schema {
    /// Reads and compiles a schema. Its numbers are exact. Its patterns run in linear time, or else with at most
    /// [`STEPS_BACK`] in a match.
    ///
    /// # Errors
    /// It is not JSON, has a key twice, is not a schema, points outside itself, is too deep, or has a pattern that can't
    /// be read or finds no room.
    pub(super) fn read(text: &str, room: &mut Room) -> Result<Self, Error> {
        Self::compile(&Tree::read(text)?, room)
    }

    /// Compiles a schema that has been read already.
    ///
    /// # Errors
    /// It is not a schema, points outside itself, is too deep, or has a pattern that can't be read or finds no room.
    pub(super) fn compile(schema: &Tree, room: &mut Room) -> Result<Self, Error> {
        let mut numbers = Numbers::default();
        Self::with(numbers.tree(schema), numbers, room)
    }

    fn with(mut schema: Value, numbers: Numbers, room: &mut Room) -> Result<Self, Error> {
        let values = size(&schema);
        let draft = draft(&mut schema)?;
        let mut patterns = Patterns::default();
        room.take(patterns.find(&schema)?)?;
        patterns.write(&mut schema)?;
        let plain = mark(&mut schema, draft)? == 0;
        let size = (plain && !patterns.backtrack).then(|| usize::try_from(values).unwrap_or(usize::MAX));
        let validator = patterns
            .choose(numbers.options(jsonschema::options_for()).with_draft(draft))
            .with_keyword(COST, |_: &Map<String, Value>, cost: &Value, _: Location| {
                Ok(Box::new(Meter(cost.as_u64().unwrap_or(1))) as Rule)
            })
            .build(&schema)
            .map_err(|error| {
                let (at, why) = explain(&error, &Tree::from(&schema));
                let invalid = Error::Invalid { at, why: patterns.as_written(why) };
                patterns.unreadable(&schema).unwrap_or(invalid)
            })?;
        Ok(Self { validator, size, patterns })
    }

    /// Estimates the work to check this many bytes, in bytes read.
    pub(super) fn cost(&self, bytes: usize) -> usize {
        self.size.map_or(usize::MAX, |size| bytes.saturating_mul(size.div_ceil(4)))
    }

    /// What does not match, with the patterns as the schema has them.
    fn mismatch(&self, error: &ValidationError<'_>, arguments: &Tree) -> Mismatch {
        let (at, why) = explain(error, arguments);
        Mismatch::Value { at: cut(&at).to_owned(), why: cut(&self.patterns.as_written(why)).to_owned() }
    }

    /// Checks arguments that had this many bytes.
    ///
    /// # Errors
    /// What is wrong with the arguments.
    pub(super) fn check(&self, arguments: &Tree, bytes: usize) -> Result<(), Mismatch> {
        LEFT.set(BUDGET + BUDGET_PER_BYTE.saturating_mul(bytes as u64).min(LARGEST_ADDITION));
        let checked = catch_unwind(AssertUnwindSafe(|| {
            self.validator.validate(arguments).map_err(|error| self.mismatch(&error, arguments))
        }));
        match checked {
            Ok(result) => result,
            Err(reason) if reason.is::<Spent>() => Err(Mismatch::TooLong),
            Err(reason) => resume_unwind(reason),
        }
    }
}

/// The draft that a schema is written in: the one that it names, or else the newest one that has its tuples. (A list in
/// `items` is no schema in the newest draft, and means the same in all earlier ones.)
fn draft(schema: &mut Value) -> Result<Draft, Error> {
    let of = |named: &Value| match named.as_str().map(Draft::from_schema_uri) {
        None | Some(Draft::Unknown) => Err(Error::Draft(named.to_string())),
        Some(draft) => Ok(draft),
    };
    let named = schema.get("$schema").map(of).transpose()?;
    let (mut old, mut new) = (false, false);
    each(schema, &mut |map| {
        old |= map.get("items").is_some_and(Value::is_array);
        new |= map.contains_key("prefixItems");
        match map.get("$schema") {
            // One draft in the midst of another is read in several ways.
            Some(other) if Some(of(other)?) != named => Err(Error::Identity("$schema")),
            _ => Ok(()),
        }
    })?;
    Ok(named.unwrap_or(if old && !new { Draft::Draft201909 } else { Draft::Draft202012 }))
}

/// The patterns of a schema.
#[derive(Default)]
struct Patterns {
    /// Whether one of them needs the engine that backtracks.
    backtrack: bool,
    /// Those that were written anew, and what they were.
    written: Vec<(String, String)>,
}

impl Patterns {
    /// Looks for all patterns, and for what they need. Returns about how many bytes they take in memory.
    fn find(&mut self, schema: &Value) -> Result<u64, Error> {
        let (mut copy, mut size) = (schema.clone(), 0_u64);
        each_pattern(&mut copy, &mut |text| {
            let read = pattern::read(text, false).map_err(|e| Error::Pattern(text.clone(), e.to_string()))?;
            self.backtrack |= read.backtracks;
            size = size.saturating_add(read.size);
            Ok(())
        })?;
        Ok(size)
    }

    /// Writes all patterns anew, as the engine reads them.
    fn write(&mut self, schema: &mut Value) -> Result<(), Error> {
        let (backtrack, mut written) = (self.backtrack, Vec::new());
        each_pattern(schema, &mut |text| {
            let read = pattern::read(text, backtrack).map_err(|e| Error::Pattern(text.clone(), e.to_string()))?;
            let mut read = read.text;
            // Two patterns that mean the same are two keys.
            while written.iter().any(|(new, old)| *new == read && old != text) {
                read.push_str("(?:)");
            }
            if read != *text {
                written.push((read.clone(), std::mem::replace(text, read)));
            }
            Ok(())
        })?;
        self.written = written;
        Ok(())
    }

    /// The first pattern that no engine reads, in a schema whose patterns were written anew.
    fn unreadable(&self, schema: &Value) -> Option<Error> {
        each_pattern(&mut schema.clone(), &mut |text| {
            let alone = Value::Object(Map::from_iter([("pattern".to_owned(), text.as_str().into())]));
            let read = self.choose(jsonschema::options()).build(&alone);
            read.map(drop).map_err(|_| Error::Pattern(self.as_written(text.clone()), "no engine reads it".into()))
        })
        .err()
    }

    /// A text with the patterns as the schema has them.
    fn as_written(&self, text: String) -> String {
        self.written.iter().fold(text, |text, (new, old)| text.replace(new, old))
    }

    /// The options with the engine that these patterns need.
    fn choose<'i, J: Json>(&self, options: Options<'i, J>) -> Options<'i, J> {
        if self.backtrack {
            options.with_pattern_options(PatternOptions::fancy_regex().backtrack_limit(STEPS_BACK))
        } else {
            options.with_pattern_options(PatternOptions::regex())
        }
    }
}

/// Gives every pattern of a schema to `change`.
fn each_pattern(schema: &mut Value, change: &mut impl FnMut(&mut String) -> Result<(), Error>) -> Result<(), Error> {
    each(schema, &mut |map| {
        if let Some(Value::Object(properties)) = map.get_mut("patternProperties") {
            for (mut key, value) in std::mem::take(properties) {
                change(&mut key)?;
                properties.insert(key, value);
            }
        }
        match map.get_mut("pattern") {
            Some(Value::String(text)) => change(text),
            _ => Ok(()),
        }
    })
}

/// Gives every object of a schema that may be a schema to `look`.
fn each(schema: &mut Value, look: &mut impl FnMut(&mut Map<String, Value>) -> Result<(), Error>) -> Result<(), Error> {
    match schema {
        Value::Array(items) => items.iter_mut().try_for_each(|item| each(item, look)),
        Value::Object(map) => {
            look(map)?;
            for (key, value) in map {
                match (key.as_str(), value) {
                    // Values, and not schemas.
                    ("const" | "enum" | "default" | "example" | "examples", _) => {}
                    // Schemas by names that mean nothing.
                    (
                        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
                        | "dependencies",
                        Value::Object(named),
                    ) => named.values_mut().try_for_each(|schema| each(schema, look))?,
                    (_, value) => each(value, look)?,
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Payload of the unwind that ends a check whose budget is used up. Nothing else could stop the check.
struct Spent;

/// Validator of the keyword. It accepts everything, for a price.
struct Meter(u64);

impl Meter {
    fn charge(&self) {
        match LEFT.get().checked_sub(self.0) {
            Some(left) => LEFT.set(left),
            // This is not a panic: no hook runs, and nothing is printed.
            None => resume_unwind(Box::new(Spent)),
        }
    }
}

impl<'i> Keyword<'i, Exact> for Meter {
    fn validate(&self, _: &'i Tree) -> Result<(), ValidationError<'i>> {
        self.charge();
        Ok(())
    }

    fn is_valid(&self, _: &'i Tree) -> bool {
        self.charge();
        true
    }
}

/// Marks the root and every target of a reference. Returns the number of targets.
fn mark(schema: &mut Value, draft: Draft) -> Result<usize, Error> {
    let mut seen = Seen { identity: if draft == Draft::Draft4 { "id" } else { "$id" }, ..Seen::default() };
    seen.walk(schema, &mut String::new(), 0)?;
    let levels = (seen.targets.len() + 1) * seen.depth;
    if levels > DEEPEST {
        return Err(Error::Deep(levels));
    }
    let targets = seen.targets.len();
    seen.targets.insert(String::new());
    // Early drafts ignore whatever stands beside a reference: no mark would end such a circle.
    if let Some(target) = seen.targets.iter().find(|target| is_in_circle(schema, target, targets)) {
        return Err(Error::Circle(target.clone()));
    }
    for pointer in seen.targets {
        let Some(target) = schema.pointer_mut(&pointer) else {
            return Err(Error::Dangling(pointer));
        };
        let cost = size(target);
        if let Value::Object(target) = target {
            target.insert(COST.into(), cost.into());
        }
    }
    Ok(targets)
}

/// What a walk through a schema finds.
#[derive(Default)]
struct Seen {
    /// The keyword that gives a schema its own name.
    identity: &'static str,
    /// Pointers to everything that a reference can point at.
    targets: BTreeSet<String>,
    /// Deepest level of the schema.
    depth: usize,
}

impl Seen {
    /// Looks at everything. Without the whole grammar, data can't be told from schemas, and an overlooked reference
    /// would be a way past the marks.
    fn walk(&mut self, value: &Value, at: &mut String, depth: usize) -> Result<(), Error> {
        self.depth = self.depth.max(depth + 1);
        match value {
            Value::Object(map) => {
                self.object(map, at, depth)?;
                for (key, value) in map {
                    self.below(value, &key.replace('~', "~0").replace('/', "~1"), at, depth)?;
                }
            }
            Value::Array(items) => {
                for (number, value) in items.iter().enumerate() {
                    self.below(value, &number.to_string(), at, depth)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn below(&mut self, value: &Value, key: &str, at: &mut String, depth: usize) -> Result<(), Error> {
        let before = at.len();
        at.push('/');
        at.push_str(key);
        self.walk(value, at, depth + 1)?;
        at.truncate(before);
        Ok(())
    }

    fn object(&mut self, map: &Map<String, Value>, at: &str, depth: usize) -> Result<(), Error> {
        if map.contains_key(COST) {
            return Err(Error::Reserved);
        }
        // Below such a keyword, pointers would begin elsewhere.
        if depth > 0 && map.get(self.identity).is_some_and(Value::is_string) {
            return Err(Error::Identity(self.identity));
        }
        if ["$anchor", "$dynamicAnchor"].iter().any(|anchor| map.get(*anchor).is_some_and(Value::is_string)) {
            self.targets.insert(at.to_owned());
        }
        for reference in REFERENCES.iter().filter_map(|key| map.get(*key)).filter_map(Value::as_str) {
            if !reference.starts_with('#') {
                return Err(Error::Outside(reference.to_owned()));
            }
            // Else, it is the name of an anchor, which is marked.
            self.targets.extend(pointer(reference));
        }
        Ok(())
    }
}

/// The pointer in a reference that has one.
fn pointer(reference: &str) -> Option<String> {
    let decoded = percent_decode_str(reference.strip_prefix('#')?).decode_utf8_lossy();
    (decoded.is_empty() || decoded.starts_with('/')).then(|| decoded.into_owned())
}

/// Whether the references from this place on, each at the other's target, have no end. `targets` is how many there are.
fn is_in_circle(schema: &Value, place: &str, targets: usize) -> bool {
    let next = |place: &String| pointer(schema.pointer(place)?.get("$ref")?.as_str()?);
    std::iter::successors(Some(place.to_owned()), next).nth(targets + 1).is_some()
}

/// Number of values in a value, itself included.
fn size(value: &Value) -> u64 {
    1 + match value {
        Value::Object(map) => map.values().map(size).sum(),
        Value::Array(items) => items.iter().map(size).sum(),
        _ => 0,
    }
}

fn cut(text: &str) -> &str {
    text.char_indices().nth(LONGEST).map_or(text, |(at, _)| &text[..at])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const DRAFT_7: &str = "http://json-schema.org/draft-07/schema#";

    fn is_valid(schema: &Schema, value: &Value) -> bool {
        let text = value.to_string();
        schema.check(&Tree::read(&text).unwrap(), text.len()).is_ok()
    }

    fn holds(schema: &Value, yes: &[Value], no: &[Value]) {
        let read = Schema::read(&schema.to_string(), &mut Room::default()).unwrap_or_else(|e| panic!("{schema}: {e}"));
        for value in yes {
            assert!(is_valid(&read, value), "{schema} and {value}");
        }
        for value in no {
            assert!(!is_valid(&read, value), "{schema} and not {value}");
        }
    }

    fn refusal(schema: &Value) -> String {
        Schema::read(&schema.to_string(), &mut Room::default())
            .err()
            .unwrap_or_else(|| panic!("{schema} is read"))
            .brief()
    }

    #[test]
    fn a_tuple_means_the_same_in_each_draft_that_has_it() {
        let tuple = json!({
            "type": "array",
            "items": [{ "type": "string" }, { "type": "integer" }],
            "additionalItems": false,
        });
        let (yes, no) =
            ([json!([]), json!(["a"]), json!(["a", 1])], [json!([1]), json!(["a", "b"]), json!(["a", 1, 2])]);
        let mut named = tuple.clone();
        holds(&tuple, &yes, &no);
        for draft in ["draft-04/schema#", "draft-06/schema#", "draft-07/schema", "draft/2019-09/schema"] {
            let scheme = if draft.contains("2019") { "https" } else { "http" };
            named["$schema"] = format!("{scheme}://json-schema.org/{draft}").into();
            holds(&named, &yes, &no);
        }
        let nested = json!({ "properties": { "a": { "anyOf": [tuple, { "type": "null" }] } } });
        holds(&nested, &[json!({ "a": null }), json!({ "a": ["x", 1] })], &[json!({ "a": [1] })]);
        let mut rest = tuple;
        rest["additionalItems"] = json!({ "type": "boolean" });
        holds(&rest, &[json!(["a", 1, true])], &[json!(["a", 1, 2])]);
        let newest = json!({ "prefixItems": [{ "type": "string" }], "items": false });
        holds(&newest, &[json!(["a"])], &[json!(["a", 1]), json!([1])]);
        // Values and names are no tuples.
        holds(&json!({ "default": { "items": [] }, "prefixItems": [false] }), &[json!([])], &[json!([1])]);
        holds(&json!({ "properties": { "items": { "type": "string" } } }), &[json!({ "items": "a" })], &[]);
        // In a draft that names itself, or beside a tuple of the newest, it is no schema.
        named["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
        assert!(refusal(&named).starts_with("items: "), "{}", refusal(&named));
        assert!(refusal(&json!({ "items": [true], "prefixItems": [true] })).starts_with("items: "));
    }

    #[test]
    fn a_draft_that_nobody_knows_is_refused() {
        for (schema, why) in [
            (json!({ "$schema": "https://example.com/my-draft" }), "and not a draft of JSON Schema"),
            (json!({ "$schema": "http://json-schema.org/draft-03/schema#" }), "and not a draft of JSON Schema"),
            (json!({ "$schema": "https://spec.openapis.org/oas/3.1/dialect/base" }), "and not a draft of JSON Schema"),
            (json!({ "$schema": 7 }), "and not a draft of JSON Schema"),
            (json!({ "not": { "$schema": "https://example.com/my-draft" } }), "and not a draft of JSON Schema"),
            (json!({ "properties": { "a": { "$schema": DRAFT_7 } } }), "allowed only at the schema's root"),
        ] {
            assert!(refusal(&schema).contains(why), "{schema}: {}", refusal(&schema));
        }
        holds(&json!({ "$schema": "http://json-schema.org/schema#", "type": "null" }), &[json!(null)], &[json!(1)]);
        let inner = json!({ "$schema": DRAFT_7, "properties": { "a": { "$schema": DRAFT_7, "type": "null" } } });
        holds(&inner, &[json!({ "a": null })], &[json!({ "a": 1 })]);
        // A value, and a name.
        let value = json!({ "const": { "$schema": "x" } });
        holds(&value, &[json!({ "$schema": "x" })], &[json!({ "$schema": "y" })]);
        let name = json!({ "properties": { "$schema": { "type": "string" } } });
        holds(&name, &[json!({ "$schema": "x" })], &[json!({ "$schema": 1 })]);
    }

    #[test]
    fn references_lead_into_the_schema_by_pointer_and_by_name() {
        let tree = |reference: Value, at: &str| {
            let mut node = json!({ "properties": { "next": reference, "n": { "type": "integer" } } });
            if !at.is_empty() {
                let (key, name) = at.split_once('=').unwrap();
                node[key] = name.into();
            }
            json!({ "$ref": "#/$defs/a~1b%20c", "$defs": { "a/b c": node } })
        };
        for schema in [
            tree(json!({ "$ref": "#/$defs/a~1b%20c" }), ""),
            tree(json!({ "$ref": "#node" }), "$anchor=node"),
            tree(json!({ "$dynamicRef": "#node" }), "$dynamicAnchor=node"),
            tree(json!({ "$dynamicRef": "#node" }), "$anchor=node"),
            tree(json!({ "$ref": "#" }), ""),
        ] {
            holds(
                &schema,
                &[json!({ "next": { "next": { "n": 1 } } })],
                &[json!({ "next": { "next": { "n": "1" } } })],
            );
        }
        let old = json!({
            "$schema": DRAFT_7,
            "properties": { "a": { "$ref": "#/definitions/text", "minLength": 3 }, "b": { "$ref": "#/properties/a" } },
            "definitions": { "text": { "type": "string", "minLength": 2 } },
        });
        // Whatever stands beside a reference counts since draft 2019-09.
        holds(&old, &[json!({ "a": "ab", "b": "ab" })], &[json!({ "a": "a" }), json!({ "b": "b" }), json!({ "b": 1 })]);
        let mut new = old;
        new["$schema"] = "https://json-schema.org/draft/2019-09/schema".into();
        holds(&new, &[json!({ "b": "abc" })], &[json!({ "b": "ab" })]);
        let root = json!({ "$id": "https://example.com/s", "properties": { "a": { "$ref": "#" } }, "type": "object" });
        holds(&root, &[json!({ "a": {} })], &[json!({ "a": 1 })]);
    }

    #[test]
    fn a_schema_within_a_schema_that_has_a_name_of_its_own_is_refused() {
        for (schema, why) in [
            (json!({ "$defs": { "a": { "$id": "https://example.com/a" } } }), "$id"),
            (
                json!({ "$ref": "https://example.com/a", "$defs": { "a": { "$id": "https://example.com/a" } } }),
                "outside",
            ),
            (json!({ "$defs": { "a": { "$id": "a", "$defs": { "b": {} }, "$ref": "#/$defs/b" } } }), "$id"),
            (json!({ "$schema": DRAFT_7, "definitions": { "a": { "$id": "#a" } }, "$ref": "#a" }), "$id"),
            (json!({ "$ref": "https://example.com/s.json" }), "points outside"),
            (json!({ "$ref": "other.json#/a" }), "points outside"),
            (json!({ "$ref": "#/$defs/nowhere" }), "points at nothing"),
            (json!({ "$ref": "#nowhere" }), "nowhere"),
            (json!({ "$dynamicRef": "#nowhere" }), "nowhere"),
        ] {
            assert!(refusal(&schema).contains(why), "{schema}: {}", refusal(&schema));
        }
    }

    #[test]
    fn references_that_lead_in_a_circle_are_refused_or_end() {
        for draft in [DRAFT_7, "https://json-schema.org/draft/2020-12/schema"] {
            for schema in [
                json!({ "$ref": "#" }),
                json!({ "$ref": "#/definitions/a", "definitions": { "a": { "$ref": "#/definitions/a" } } }),
                json!({ "$ref": "#/definitions/~2", "definitions": {
                    "~2": { "$ref": "#/definitions/%7e3" }, "~3": { "$ref": "#/definitions/~2" },
                } }),
                json!({ "not": { "$ref": "#/definitions/a" }, "definitions": {
                    "a": { "$ref": "#/definitions/b" }, "b": { "$ref": "#/definitions/c" },
                    "c": { "$ref": "#/definitions/b" },
                } }),
            ] {
                let mut schema = schema;
                schema["$schema"] = draft.into();
                assert!(refusal(&schema).contains("leads in a circle"), "{schema}: {}", refusal(&schema));
            }
            let around = json!({ "$schema": draft, "allOf": [{ "$ref": "#" }] });
            let around = Schema::read(&around.to_string(), &mut Room::default()).unwrap();
            // Whether it holds is nowhere said.
            is_valid(&around, &json!(1));
            let chain = json!({ "$schema": draft, "properties": { "a": { "$ref": "#/properties/b" },
                "b": { "$ref": "#/properties/c" }, "c": { "type": "null" } } });
            holds(&chain, &[json!({ "a": null })], &[json!({ "a": 1 })]);
        }
    }

    #[test]
    fn a_format_is_checked_if_its_draft_says_so() {
        let date = json!({ "type": "string", "format": "date" });
        holds(&date, &[json!("2024-02-29"), json!("tomorrow")], &[json!(1)]);
        let mut old = date;
        old["$schema"] = DRAFT_7.into();
        holds(&old, &[json!("2024-02-29")], &[json!("tomorrow"), json!("2023-02-29"), json!(1)]);
        holds(&json!({ "$schema": DRAFT_7, "format": "of-my-own" }), &[json!("x")], &[]);
    }

    #[test]
    fn a_refusal_names_the_place_and_what_is_wrong() {
        for (schema, why) in [
            (json!({ "properties": { "a": { "type": "objekt" } } }), "properties.a.type: "),
            (json!({ "required": "a" }), "required: "),
            (json!({ "minimum": "1" }), "minimum: "),
            (json!({ "properties": { "a": { "pattern": r"\Z" } } }), r"\Z is no escape"),
            (json!({ "propertyNames": { "pattern": "[" } }), "in the middle"),
            (json!([]), ""),
        ] {
            let refusal = refusal(&schema);
            assert!(refusal.contains(why), "{schema}: {refusal}");
        }
    }
}
