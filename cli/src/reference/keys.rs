//! Reads the keys of a structure of options from its JSON Schema.

use schemars::JsonSchema;
use serde_json::{Map, Value};
use thermae_service::secret;

/// One key, as a row of the generated page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// Its dotted path. `<name>` stands for a name that the user chooses.
    pub(super) path: String,
    /// The type of its value, in words.
    pub(super) kind: String,
    /// Its default, as TOML. Empty if there is none.
    pub(super) default: String,
    /// What it means: the doc comment.
    pub(super) meaning: String,
}

/// All keys of a structure. The keys of its tables are listed one by one.
pub(super) fn of<T: JsonSchema>() -> Vec<Key> {
    let schema = schemars::SchemaGenerator::default().into_root_schema_for::<T>();
    let mut keys = Vec::new();
    let root = schema.as_value();
    walk(root, root, "", &Value::Null, &mut keys);
    keys
}

fn walk(root: &Value, table: &Value, prefix: &str, defaults: &Value, keys: &mut Vec<Key>) {
    for (name, property) in table["properties"].as_object().into_iter().flatten() {
        let path = format!("{prefix}{name}");
        // The default of a table's field may differ from the default of the field's type.
        let default = defaults.get(name).or_else(|| property.get("default")).unwrap_or(&Value::Null);
        let schema = resolve(root, property);
        let meaning = property["description"].as_str().or_else(|| schema["description"].as_str()).unwrap_or_default();
        if schema["properties"].is_object() {
            walk(root, schema, &format!("{path}."), default, keys);
            continue;
        }
        // A map has patternProperties if its names must follow a rule, otherwise additionalProperties.
        let named = schema["patternProperties"].as_object().and_then(|patterns| patterns.values().next());
        let item = resolve(root, named.unwrap_or(&schema["additionalProperties"]));
        if item["properties"].is_object() {
            walk(root, item, &format!("{path}.<name>."), &Value::Null, keys);
            continue;
        }
        keys.push(Key {
            path,
            kind: kind(root, property),
            default: show(default),
            meaning: meaning.replace('\n', " "),
        });
    }
}

/// Follows references, and unwraps a schema that only makes another one optional.
fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    if let Some(target) = schema["$ref"].as_str() {
        let pointer = target.trim_start_matches('#');
        return root.pointer(pointer).map_or(schema, |schema| resolve(root, schema));
    }
    let several = schema["anyOf"].as_array().into_iter().flatten();
    let mut some = several.filter(|schema| schema["type"] != "null");
    match (some.next(), some.next()) {
        (Some(only), None) => resolve(root, only),
        _ => schema,
    }
}

fn kind(root: &Value, property: &Value) -> String {
    let schema = resolve(root, property);
    let names = |of: &Value| {
        of["oneOf"].as_array().map(|list| {
            list.iter().filter_map(|one| one["const"].as_str()).map(|s| format!("`{s}`")).collect::<Vec<_>>()
        })
    };
    if let Some(choices) = names(schema).filter(|choices| !choices.is_empty()) {
        return choices.join(" | ");
    }
    if let Some(choices) = schema["enum"].as_array() {
        return choices.iter().filter_map(Value::as_str).map(|s| format!("`{s}`")).collect::<Vec<_>>().join(" | ");
    }
    let patterns: Vec<&str> =
        schema["oneOf"].as_array().into_iter().flatten().filter_map(|one| one["pattern"].as_str()).collect();
    match patterns.first() {
        Some(pattern) if pattern.contains("[KMGT]") => return "size".to_owned(),
        Some(pattern) if pattern.contains("ms") => return "time".to_owned(),
        _ => {}
    }
    if schema["format"] == secret::FORMAT {
        return "secret".to_owned();
    }
    let types = |schema: &Value| -> Vec<String> {
        match &schema["type"] {
            Value::String(one) => vec![one.clone()],
            Value::Array(many) => {
                many.iter().filter_map(Value::as_str).filter(|t| *t != "null").map(str::to_owned).collect()
            }
            _ => Vec::new(),
        }
    };
    let word = |schema: &Value| match types(schema).first().map(String::as_str) {
        Some("integer") => "integer".to_owned(),
        Some("number") => "number".to_owned(),
        Some("boolean") => "boolean".to_owned(),
        Some("string") => "text".to_owned(),
        Some("array") => format!("list of {}", kind(root, &schema["items"])),
        Some("object") => "table".to_owned(),
        _ => "any".to_owned(),
    };
    match schema["anyOf"].as_array() {
        Some(several) => several.iter().map(word).collect::<Vec<_>>().join(" or "),
        None => word(schema),
    }
}

/// A value as TOML. Empty if there is no value.
fn show(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Object(map) if *map == Map::new() => "{}".to_owned(),
        Value::Object(_) => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Serialize};
    use thermae_service::units::{ByteSize, Millis};

    use super::*;

    #[derive(Serialize, Deserialize, JsonSchema, Default)]
    #[serde(default)]
    struct Outer {
        /// A name.
        name: Option<String>,
        /// Inner tables.
        inner: BTreeMap<String, Inner>,
        special: Special,
        /// How.
        how: How,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    struct Inner {
        /// How much.
        memory: ByteSize,
        /// How long.
        wait: Millis,
        words: Vec<String>,
    }

    impl Default for Inner {
        fn default() -> Self {
            Self { memory: ByteSize::mib(1), wait: Millis::from_secs(2), words: vec!["a".to_owned()] }
        }
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    struct Special {
        inner: Inner,
    }

    impl Default for Special {
        fn default() -> Self {
            Self { inner: Inner { memory: ByteSize::gib(1), ..Inner::default() } }
        }
    }

    #[derive(Serialize, Deserialize, JsonSchema, Default)]
    #[serde(rename_all = "snake_case")]
    enum How {
        /// Well.
        #[default]
        Well,
        /// Badly.
        Badly,
    }

    #[test]
    fn every_key_is_listed_with_its_effective_default() {
        let rows: Vec<String> =
            of::<Outer>().iter().map(|k| format!("{} | {} | {} | {}", k.path, k.kind, k.default, k.meaning)).collect();
        insta::assert_snapshot!(rows.join("\n"), @r#"
        how | `well` | `badly` | "well" | How.
        inner.<name>.memory | size | "1MiB" | How much.
        inner.<name>.wait | time | "2s" | How long.
        inner.<name>.words | list of text | ["a"] | 
        name | text |  | A name.
        special.inner.memory | size | "1GiB" | How much.
        special.inner.wait | time | "2s" | How long.
        special.inner.words | list of text | ["a"] | 
        "#);
    }
}
