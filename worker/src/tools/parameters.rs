//! The parameters of a tool, as the code calls it: those that the job declares, or else those of its schema.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use thermae_runner::frames::{Parameter, ParameterKind as Kind};
use thermae_schemas::{ParameterKind, ToolParameter, ToolSpec};

/// Most references that are followed from a schema to the object that it describes.
const MOST_REFERENCES: usize = 4;

/// Keywords under which a schema may speak of further properties.
const ELSEWHERE: [&str; 9] =
    ["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas"];

/// What is wrong with the parameters that a job declares for a tool.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("two have the name {0:?}")]
    Twice(String),
    #[error("{0:?} stands after one that is more bound to its name")]
    Order(String),
}

/// A tool's parameters, and whether the code may give arguments of other names.
///
/// # Errors
/// The job declares parameters that no function can have.
pub(super) fn of(tool: &ToolSpec) -> Result<(Vec<Parameter>, bool), Error> {
    let text = tool.input_schema.as_ref().map_or("", |schema| schema.raw().get());
    let schema = Object::read(text).map(Object::resolved).unwrap_or_default();
    let parameters = tool.parameters.as_ref().map(|declared| checked(declared)).transpose()?;
    let parameters = parameters.unwrap_or_else(|| schema.parameters());
    let patterns = schema.get::<Object<'_>>("patternProperties").is_some_and(|patterns| !patterns.0.is_empty());
    let others = match schema.get::<&RawValue>("additionalProperties") {
        Some(others) => others.get() != "false",
        // JSON Schema then allows any. But a list of parameters means these, and no misspelt ones.
        None => tool.parameters.is_none() && (!schema.has("properties") || ELSEWHERE.iter().any(|key| schema.has(key))),
    };
    Ok((parameters, others || patterns))
}

fn checked(declared: &[ToolParameter]) -> Result<Vec<Parameter>, Error> {
    let mut names = HashSet::new();
    if let Some(twice) = declared.iter().find(|one| !names.insert(&one.name)) {
        return Err(Error::Twice(twice.name.clone()));
    }
    if let Some(pair) = declared.windows(2).find(|pair| pair[0].kind > pair[1].kind) {
        return Err(Error::Order(pair[1].name.clone()));
    }
    let told = declared.iter().map(|one| Parameter {
        name: one.name.clone(),
        kind: match one.kind {
            ParameterKind::PositionalOnly => Kind::PositionalOnly,
            ParameterKind::PositionalOrKeyword => Kind::PositionalOrKeyword,
            ParameterKind::KeywordOnly => Kind::KeywordOnly,
        },
        required: one.required,
    });
    Ok(told.collect())
}

/// An object of a schema, whose members have the order of the text.
#[derive(Default)]
struct Object<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Object<'a> {
    fn read(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(name, _)| name == key)
    }

    /// A member, if it is a `T`. Of two, the last one counts, as for most readers.
    fn get<T: Deserialize<'a>>(&self, key: &str) -> Option<T> {
        let (_, value) = self.0.iter().rfind(|(name, _)| name == key)?;
        serde_json::from_str(value.get()).ok()
    }

    /// The object that this schema describes, if it only says where that is.
    fn resolved(self) -> Self {
        let root = Self(self.0.clone());
        let mut found = self;
        for _ in 0..MOST_REFERENCES {
            let next = match found.get::<String>("$ref") {
                Some(pointer) => root.at(&pointer),
                None => match found.get::<Vec<&RawValue>>("allOf").as_deref() {
                    Some([only]) if !found.has("type") && !found.has("properties") => Self::read(only.get()),
                    _ => return found,
                },
            };
            found = next.unwrap_or_default();
        }
        found
    }

    /// What is at a JSON pointer, such as `#/$defs/Order`.
    fn at(&self, pointer: &str) -> Option<Self> {
        let mut keys = pointer.strip_prefix('#')?.split('/');
        keys.next().filter(|anchor| anchor.is_empty())?;
        keys.try_fold(Self(self.0.clone()), |found, key| found.get(&key.replace("~1", "/").replace("~0", "~")))
    }

    /// The parameters that a schema of arguments lists, in its order.
    fn parameters(&self) -> Vec<Parameter> {
        let properties = self.get::<Self>("properties").unwrap_or_default();
        let required: HashSet<String> = self.get("required").unwrap_or_default();
        let mut names = HashSet::new();
        let once = properties.0.into_iter().filter(|(name, _)| names.insert(name.clone()));
        let described = once.map(|(name, _)| Parameter {
            required: required.contains(&name),
            name,
            kind: Kind::PositionalOrKeyword,
        });
        described.collect()
    }
}

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Object<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Object(members))
            }
        }
        from.deserialize_map(Read)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The parameters as the runner is told of them, and whether there may be others.
    fn told(tool: &str) -> (Value, bool) {
        let (parameters, others) = of(&serde_json::from_str(tool).unwrap()).unwrap();
        (serde_json::to_value(parameters).unwrap(), others)
    }

    fn derived(schema: &str) -> (Value, bool) {
        told(&format!(r#"{{"name": "t", "input_schema": {schema}}}"#))
    }

    #[test]
    fn a_schema_lists_them_in_the_order_of_its_text() {
        let listed = r#""properties": {"zeta": {}, "alpha": {"type": "string"}}, "required": ["alpha"]"#;
        let parameters = json!([{"name": "zeta"}, {"name": "alpha", "required": true}]);
        assert_eq!(derived(&format!("{{{listed}}}")), (parameters.clone(), false));
        for elsewhere in [
            format!(r##"{{"$ref": "#/$defs/a~1b", "$defs": {{"a/b": {{{listed}}}}}}}"##),
            format!(r#"{{"allOf": [{{{listed}}}]}}"#),
            format!(r##"{{"allOf": [{{"$ref": "#/$defs/A"}}], "$defs": {{"A": {{{listed}}}}}}}"##),
        ] {
            assert_eq!(derived(&elsewhere), (parameters.clone(), false), "{elsewhere}");
        }
        let twice = r#"{"properties": {"a": {}, "b": {}, "a": {}}}"#;
        assert_eq!(derived(twice), (json!([{"name": "a"}, {"name": "b"}]), false));
        for strange in ["true", "{\"properties\": []}", "{\"$ref\": \"#\"}", "{\"$ref\": \"other\"}"] {
            assert_eq!(derived(strange).0, json!([]), "{strange}");
        }
    }

    #[test]
    fn others_are_those_that_the_schema_speaks_of() {
        assert_eq!(told(r#"{"name": "t"}"#), (json!([]), true));
        for (schema, others) in [
            ("true", true),
            ("{}", true),
            (r#"{"type": "object"}"#, true),
            (r#"{"additionalProperties": false}"#, false),
            (r#"{"properties": {}}"#, false),
            (r#"{"properties": {"a": {}}}"#, false),
            (r#"{"properties": {"a": {}}, "additionalProperties": true}"#, true),
            (r#"{"properties": {"a": {}}, "additionalProperties": {}}"#, true),
            (r#"{"properties": {"a": {}}, "additionalProperties": {"type": "string"}}"#, true),
            (r#"{"properties": {"a": {}}, "patternProperties": {"^x-": {}}}"#, true),
            (r#"{"patternProperties": {"^x-": {}}, "additionalProperties": false}"#, true),
            (r#"{"patternProperties": {}, "additionalProperties": false}"#, false),
            (r#"{"properties": {"a": {}}, "allOf": [{"properties": {"b": {}}}]}"#, true),
            (r#"{"properties": {"a": {}}, "allOf": [{"required": ["a"]}], "additionalProperties": false}"#, false),
        ] {
            assert_eq!(derived(schema).1, others, "{schema}");
        }
    }

    #[test]
    fn a_job_may_declare_them() {
        let tool = |parameters: &str, more: &str| {
            let schema = r#""input_schema": {"properties": {"b": {}, "a": {}}, "required": ["b"]"#;
            format!(r#"{{"name": "t", "parameters": {parameters}, {schema}{more}}}}}"#)
        };
        let declared = json!([
            {"name": "x", "kind": "positional_only", "required": true},
            {"name": "a"},
            {"name": "b", "kind": "keyword_only", "required": true},
        ]);
        assert_eq!(told(&tool(&declared.to_string(), "")), (declared.clone(), false));
        assert_eq!(told(&tool(&declared.to_string(), r#", "additionalProperties": true"#)), (declared, true));
        assert_eq!(told(r#"{"name": "t", "parameters": []}"#), (json!([]), false));
        for (parameters, why) in [
            (r#"[{"name": "a"}, {"name": "b"}, {"name": "a"}]"#, "two have the name \"a\""),
            (r#"[{"name": "a", "kind": "keyword_only"}, {"name": "b"}]"#, "\"b\" stands after"),
            (r#"[{"name": "a"}, {"name": "b", "kind": "positional_only"}]"#, "\"b\" stands after"),
        ] {
            let refused = of(&serde_json::from_str(&tool(parameters, "")).unwrap()).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
