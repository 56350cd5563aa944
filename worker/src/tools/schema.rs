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
use jsonschema::{Keyword, PatternOptions, Retrieve, ValidationError, ValidationOptions, Validator};
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
    #[error("the reference \"#{0}\" points at nothing")]
    Dangling(String),
    #[error("the reference {0:?} points outside the schema")]
    Outside(String),
    #[error("{0:?} is allowed only at the schema's root")]
    Identity(&'static str),
    #[error("the keyword {COST:?} is reserved for the fleet")]
    Reserved,
    /// No engine reads the pattern as ECMA-262 means it.
    #[error("the pattern {0:?} can't be read: {1}")]
    Pattern(String, String),
    /// It is not JSON, or has several readings.
    #[error(transparent)]
    Unreadable(#[from] serde_json::Error),
    /// It is not a schema.
    #[error(transparent)]
    Invalid(Box<ValidationError<'static>>),
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

/// One tool's input schema.
pub(super) struct Schema {
    validator: Validator<Exact>,
    /// Number of values in the schema. `None` if it has references or anchors, because a check may then take as long as
    /// its budget allows.
    size: Option<usize>,
    /// The patterns that were written anew, and what they were.
    patterns: Vec<(String, String)>,
}

impl Schema {
    /// Reads and compiles a schema. Its numbers are exact. Its patterns run in linear time, or else with at most
    /// [`STEPS_BACK`] in a match.
    ///
    /// # Errors
    /// It is not JSON, has a key twice, is not a schema, points outside itself, is too deep, or has a pattern that can't
    /// be read.
    pub(super) fn read(text: &str) -> Result<Self, Error> {
        Self::compile(&Tree::read(text)?)
    }

    /// Compiles a schema that has been read already.
    ///
    /// # Errors
    /// It is not a schema, points outside itself, is too deep, or has a pattern that can't be read.
    pub(super) fn compile(schema: &Tree) -> Result<Self, Error> {
        let mut numbers = Numbers::default();
        Self::with(numbers.tree(schema), numbers)
    }

    fn with(mut schema: Value, numbers: Numbers) -> Result<Self, Error> {
        let values = size(&schema);
        let mut patterns = Patterns::default();
        patterns.find(&schema)?;
        patterns.write(&mut schema)?;
        let plain = mark(&mut schema)? == 0;
        let size = (plain && !patterns.backtrack).then(|| usize::try_from(values).unwrap_or(usize::MAX));
        let validator = patterns
            .choose(numbers.options(jsonschema::options_for()))
            .with_keyword(COST, |_: &Map<String, Value>, cost: &Value, _: Location| {
                Ok(Box::new(Meter(cost.as_u64().unwrap_or(1))) as Rule)
            })
            .build(&schema)
            .map_err(|e| Error::Invalid(Box::new(e)))?;
        Ok(Self { validator, size, patterns: patterns.written })
    }

    /// Estimates the work to check this many bytes, in bytes read.
    pub(super) fn cost(&self, bytes: usize) -> usize {
        self.size.map_or(usize::MAX, |size| bytes.saturating_mul(size.div_ceil(4)))
    }

    /// What does not match, with the patterns as the schema has them.
    fn mismatch(&self, error: &ValidationError<'_>, arguments: &Tree) -> Mismatch {
        let (at, why) = explain(error, arguments);
        let why = self.patterns.iter().fold(why, |text, (new, old)| text.replace(new, old));
        Mismatch::Value { at: cut(&at).to_owned(), why: cut(&why).to_owned() }
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

/// The patterns of a schema.
#[derive(Default)]
struct Patterns {
    /// Whether one of them needs the engine that backtracks.
    backtrack: bool,
    /// Those that were written anew, and what they were.
    written: Vec<(String, String)>,
}

impl Patterns {
    /// Looks for all patterns, and for what they need.
    fn find(&mut self, schema: &Value) -> Result<(), Error> {
        let mut copy = schema.clone();
        each(&mut copy, &mut |text| {
            let read = pattern::read(text, false).map_err(|e| Error::Pattern(text.clone(), e.to_string()))?;
            self.backtrack |= read.backtracks;
            Ok(())
        })
    }

    /// Writes all patterns anew, as the engine reads them.
    fn write(&mut self, schema: &mut Value) -> Result<(), Error> {
        let (backtrack, mut written) = (self.backtrack, Vec::new());
        each(schema, &mut |text| {
            let unreadable = |why: String| Error::Pattern(text.clone(), why);
            let mut read = pattern::read(text, backtrack).map_err(|e| unreadable(e.to_string()))?.text;
            // Two patterns that mean the same are two keys.
            while written.iter().any(|(new, old)| *new == read && old != text) {
                read.push_str("(?:)");
            }
            let alone = Value::Object(Map::from_iter([("pattern".to_owned(), read.as_str().into())]));
            self.choose(jsonschema::options()).build(&alone).map_err(|_| unreadable("no engine reads it".into()))?;
            if read != *text {
                written.push((read.clone(), std::mem::replace(text, read)));
            }
            Ok(())
        })?;
        self.written = written;
        Ok(())
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
fn each(schema: &mut Value, change: &mut impl FnMut(&mut String) -> Result<(), Error>) -> Result<(), Error> {
    match schema {
        Value::Array(items) => items.iter_mut().try_for_each(|item| each(item, change)),
        Value::Object(map) => {
            if let Some(Value::Object(properties)) = map.get_mut("patternProperties") {
                for (mut key, value) in std::mem::take(properties) {
                    change(&mut key)?;
                    properties.insert(key, value);
                }
            }
            for (key, value) in map {
                match (key.as_str(), value) {
                    ("pattern", Value::String(text)) => change(text)?,
                    // Values, and not schemas.
                    ("const" | "enum" | "default" | "example" | "examples", _) => {}
                    // Schemas by names that mean nothing.
                    (
                        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
                        | "dependencies",
                        Value::Object(named),
                    ) => named.values_mut().try_for_each(|schema| each(schema, change))?,
                    (_, value) => each(value, change)?,
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
fn mark(schema: &mut Value) -> Result<usize, Error> {
    let old = schema.get("$schema").and_then(Value::as_str).is_some_and(|s| s.contains("draft-04"));
    let mut seen = Seen { identity: if old { "id" } else { "$id" }, ..Seen::default() };
    seen.walk(schema, &mut String::new(), 0)?;
    let levels = (seen.targets.len() + 1) * seen.depth;
    if levels > DEEPEST {
        return Err(Error::Deep(levels));
    }
    let targets = seen.targets.len();
    seen.targets.insert(String::new());
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
            let decoded = percent_decode_str(reference).decode_utf8_lossy();
            match decoded.strip_prefix('#') {
                // The name of an anchor, which is marked.
                Some(name) if !name.is_empty() && !name.starts_with('/') => {}
                Some(pointer) => {
                    self.targets.insert(pointer.to_owned());
                }
                None => return Err(Error::Outside(reference.to_owned())),
            }
        }
        Ok(())
    }
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
