//! What makes checks by JSON Schema exact: arguments whose numbers are as they were written, and rules about numbers.
//!
//! The validator takes schemas as trees of `serde_json`, which round integers of more than 64 bits. So a float stands
//! for each number that such a tree can't hold, and [`Numbers`] says which number that is.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::btree_map;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jsonschema::json::{Array, Json, JsonNumber, Node, NodeIdentity, Object};
use jsonschema::paths::Location;
use jsonschema::{JsonType, Keyword, ValidationError, ValidationOptions};
use serde_json::{Map, Value};
use thermae_capabilities::{Number, Tree, Unit};

/// The form of arguments for the validator: a [`Tree`].
pub(super) struct Exact;

/// A rule of the validator.
pub(super) type Rule = Box<dyn for<'i> Keyword<'i, Exact>>;

/// The numbers of a schema, by the bits of the floats that stand for them in its tree. Integers of 64 bits stand for
/// themselves.
#[derive(Default)]
pub(super) struct Numbers {
    floats: HashMap<u64, Number>,
    /// Whether any stands for another number than itself.
    rounds: bool,
    /// How many were tried that are not near to their numbers.
    strangers: u64,
}

impl Numbers {
    /// The schema as the tree that the validator takes.
    pub(super) fn tree(&mut self, schema: &Tree) -> Value {
        match schema {
            Tree::Number(number) => self.number(number),
            Tree::List(items) => items.iter().map(|item| self.tree(item)).collect(),
            Tree::Object(map) => map.iter().map(|(key, value)| (key.clone(), self.tree(value))).collect(),
            other => other.to_value(),
        }
    }

    fn number(&mut self, number: &Number) -> Value {
        let near = number.near();
        let Some(mut float) = near.as_f64().filter(|_| near.is_f64()) else { return near.into() };
        self.rounds |= Number::from(&near) != *number;
        // Any float of the same sign will do, if it stands for nothing else.
        while float == 0.0 || self.floats.entry(float.to_bits()).or_insert_with(|| number.clone()) != number {
            self.rounds = true;
            self.strangers += 1;
            float = f64::from_bits(1e300_f64.to_bits() + self.strangers).copysign(float);
        }
        float.into()
    }

    /// The number that a number of the schema's tree stands for.
    fn of(&self, number: &serde_json::Number) -> Number {
        let float = number.as_f64().filter(|_| number.is_f64());
        float.and_then(|float| self.floats.get(&float.to_bits())).cloned().unwrap_or_else(|| number.into())
    }

    /// The part of the schema that a part of its tree stands for.
    fn exact(&self, value: &Value) -> Tree {
        match value {
            Value::Null => Tree::Null,
            Value::Bool(value) => Tree::Bool(*value),
            Value::Number(number) => Tree::Number(self.of(number)),
            Value::String(text) => Tree::Text(text.clone()),
            Value::Array(items) => Tree::List(items.iter().map(|item| self.exact(item)).collect()),
            Value::Object(map) => {
                Tree::Object(map.iter().map(|(key, value)| (key.clone(), self.exact(value))).collect())
            }
        }
    }

    /// Options of a validator that judges numbers by their exact values.
    pub(super) fn options<'i, R>(
        self,
        mut options: ValidationOptions<'i, R, Exact>,
    ) -> ValidationOptions<'i, R, Exact> {
        let numbers = Arc::new(self);
        for (keyword, strict, wrong) in
            [("maximum", "exclusiveMaximum", Ordering::Greater), ("minimum", "exclusiveMinimum", Ordering::Less)]
        {
            let of = Arc::clone(&numbers);
            options = options.with_keyword(keyword, move |parent: &Map<String, Value>, limit: &Value, _: Location| {
                // In draft 4, the other keyword says only whether this one is strict.
                let strict = parent.get(strict) == Some(&Value::Bool(true));
                Ok(of.limit(limit, wrong, strict))
            });
            let of = Arc::clone(&numbers);
            options = options.with_keyword(strict, move |_: &Map<String, Value>, limit: &Value, _: Location| {
                Ok(of.limit(limit, wrong, true))
            });
        }
        let of = Arc::clone(&numbers);
        options = options.with_keyword("multipleOf", move |_: &Map<String, Value>, unit: &Value, _: Location| {
            let Some(number) = unit.as_number().map(|number| of.of(number)) else {
                return Ok(Box::new(MultipleOf(None)) as Rule);
            };
            let many = || ValidationError::custom(format!("{number} has more than {} digits", Unit::DIGITS));
            let unit = number.unit().ok_or_else(many)?;
            Ok(Box::new(MultipleOf(Some((number, unit)))) as Rule)
        });
        // The validator's own rules are faster with many values, and exact if the tree is.
        if numbers.rounds {
            let of = Arc::clone(&numbers);
            options = options.with_keyword("const", move |_: &Map<String, Value>, wanted: &Value, _: Location| {
                Ok(Box::new(OneOf(vec![of.exact(wanted)])) as Rule)
            });
            options = options.with_keyword("enum", move |_: &Map<String, Value>, wanted: &Value, _: Location| {
                let wanted = wanted.as_array().into_iter().flatten();
                Ok(Box::new(OneOf(wanted.map(|one| numbers.exact(one)).collect())) as Rule)
            });
        }
        options
    }

    fn limit(&self, limit: &Value, wrong: Ordering, strict: bool) -> Rule {
        Box::new(Limit { limit: limit.as_number().map(|number| self.of(number)), wrong, strict })
    }
}

/// A bound of numbers.
struct Limit {
    limit: Option<Number>,
    /// The side that is out of bounds.
    wrong: Ordering,
    /// Whether the bound itself is out of bounds.
    strict: bool,
}

impl<'i> Keyword<'i, Exact> for Limit {
    fn validate(&self, value: &'i Tree) -> Result<(), ValidationError<'i>> {
        let (Some(limit), Tree::Number(number)) = (&self.limit, value) else { return Ok(()) };
        let order = number.cmp(limit);
        if order != self.wrong && !(self.strict && order.is_eq()) {
            return Ok(());
        }
        let (than, end) = if self.wrong.is_gt() { ("greater", "maximum") } else { ("less", "minimum") };
        let equal = if self.strict { " or equal to" } else { "" };
        Err(ValidationError::custom(format!("{number} is {than} than{equal} the {end} of {limit}")))
    }

    fn is_valid(&self, value: &'i Tree) -> bool {
        self.validate(value).is_ok()
    }
}

/// Numbers must be a whole number of times this one.
struct MultipleOf(Option<(Number, Unit)>);

impl<'i> Keyword<'i, Exact> for MultipleOf {
    fn validate(&self, value: &'i Tree) -> Result<(), ValidationError<'i>> {
        match (&self.0, value) {
            (Some((unit, exact)), Tree::Number(number)) if !number.is_multiple_of(exact) => {
                Err(ValidationError::custom(format!("{number} is not a multiple of {unit}")))
            }
            _ => Ok(()),
        }
    }

    fn is_valid(&self, value: &'i Tree) -> bool {
        self.validate(value).is_ok()
    }
}

/// Values must be one of these.
struct OneOf(Vec<Tree>);

impl<'i> Keyword<'i, Exact> for OneOf {
    fn validate(&self, value: &'i Tree) -> Result<(), ValidationError<'i>> {
        if self.is_valid(value) {
            return Ok(());
        }
        let wanted: Vec<_> = self.0.iter().map(Tree::to_string).collect();
        let among = if wanted.len() == 1 { "" } else { "one of " };
        Err(ValidationError::custom(format!("{value} is not {among}{}", wanted.join(", "))))
    }

    fn is_valid(&self, value: &'i Tree) -> bool {
        self.0.contains(value)
    }
}

impl Json for Exact {
    type Node<'a> = &'a Tree;
    type PreparedKey = String;
    type StringBuffer = Option<Tree>;

    fn prepare_key(key: &str) -> String {
        key.to_owned()
    }

    fn with_string_node<T>(buffer: &mut Option<Tree>, string: &str, f: impl FnOnce(&Tree) -> T) -> T {
        f(buffer.insert(Tree::Text(string.to_owned())))
    }
}

impl<'a> Node<'a, Exact> for &'a Tree {
    type Object = &'a BTreeMap<String, Tree>;
    type Array = &'a [Tree];
    type Number = Written<'a>;

    fn as_object(&self) -> Option<Self::Object> {
        if let Tree::Object(map) = self { Some(map) } else { None }
    }

    fn as_array(&self) -> Option<Self::Array> {
        if let Tree::List(items) = self { Some(items) } else { None }
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        if let Tree::Text(text) = self { Some(Cow::Borrowed(text)) } else { None }
    }

    fn as_number(&self) -> Option<Written<'a>> {
        if let Tree::Number(number) = self { Some(Written(number)) } else { None }
    }

    fn as_boolean(&self) -> Option<bool> {
        if let Tree::Bool(value) = self { Some(*value) } else { None }
    }

    fn is_null(&self) -> bool {
        matches!(self, Tree::Null)
    }

    fn json_type(&self) -> JsonType {
        match self {
            Tree::Null => JsonType::Null,
            Tree::Bool(_) => JsonType::Boolean,
            Tree::Number(_) => JsonType::Number,
            Tree::Text(_) => JsonType::String,
            Tree::List(_) => JsonType::Array,
            Tree::Object(_) => JsonType::Object,
        }
    }

    fn equals_value(&self, expected: &Value) -> bool {
        self.is(expected)
    }

    fn to_value(&self) -> Cow<'a, Value> {
        Cow::Owned((*self).to_value())
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Some(NodeIdentity::new(std::ptr::from_ref::<Tree>(self).addr()))
    }
}

impl<'a> Object<'a, Exact> for &'a BTreeMap<String, Tree> {
    type Node = &'a Tree;
    type MemberName = &'a str;
    type MembersIter = Members<'a>;

    fn len(&self) -> usize {
        BTreeMap::len(self)
    }

    fn get(&self, key: &String) -> Option<&'a Tree> {
        BTreeMap::get(self, key)
    }

    fn members(&self) -> Members<'a> {
        Members(self.iter())
    }
}

/// The members of an object.
pub(super) struct Members<'a>(btree_map::Iter<'a, String, Tree>);

impl<'a> Iterator for Members<'a> {
    type Item = (&'a str, &'a Tree);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(name, value)| (name.as_str(), value))
    }
}

impl<'a> Array<'a, Exact> for &'a [Tree] {
    type Node = &'a Tree;
    type ElementsIter = std::slice::Iter<'a, Tree>;

    fn len(&self) -> usize {
        <[Tree]>::len(self)
    }

    fn elements(&self) -> std::slice::Iter<'a, Tree> {
        self.iter()
    }

    fn is_unique(&self) -> bool {
        let mut seen = HashSet::with_capacity(<[Tree]>::len(self));
        self.iter().all(|item| seen.insert(item))
    }
}

/// A number of arguments.
pub(super) struct Written<'a>(&'a Number);

impl JsonNumber for Written<'_> {
    fn as_u64(&self) -> Option<u64> {
        self.0.as_u64()
    }

    fn as_i64(&self) -> Option<i64> {
        self.0.as_i64()
    }

    /// Only what a float holds: by a rounded one, the validator would take two numbers for the same.
    fn as_f64(&self) -> Option<f64> {
        let near = self.0.near();
        (Number::from(&near) == *self.0).then(|| near.as_f64()).flatten()
    }

    fn as_str(&self) -> Cow<'_, str> {
        Cow::Owned(self.0.to_string())
    }

    fn to_number(&self) -> Cow<'_, serde_json::Number> {
        Cow::Owned(self.0.near())
    }

    fn is_integer(&self) -> bool {
        self.0.is_integer()
    }

    fn is_written_as_integer(&self) -> bool {
        self.0.is_written_as_integer()
    }
}
