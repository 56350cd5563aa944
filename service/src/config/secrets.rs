//! Secrets in files: `K_file` names the file that contains the secret `K`.
//!
//! This applies to every key of the type [`Secret`], in the TOML file, in the environment and in flags. The schema of
//! the structure says which keys these are, so there is no list that could become outdated.

use std::collections::BTreeSet;
use std::path::Path;

use config::{Map, Value, ValueKind};
use schemars::JsonSchema;
use serde_json::Value as Json;

use super::Error;
use crate::secret::{FORMAT, Secret};

const SUFFIX: &str = "_file";

/// Schema attribute that lists the names in a table of secrets that end with `_file` but are options of their own.
pub const OWN_FILES: &str = "x-own-files";

/// The secrets of a structure, found in its schema.
pub(super) struct Secrets(Json);

impl Secrets {
    pub(super) fn of<T: JsonSchema>() -> Self {
        Self(schemars::SchemaGenerator::default().into_root_schema_for::<T>().to_value())
    }

    /// Names of the structure's own keys, and of the keys for files that may replace them.
    pub(super) fn keys(&self) -> BTreeSet<String> {
        let own = self.0["properties"].as_object().into_iter().flatten();
        own.flat_map(|(name, property)| {
            let file = is_secret(self.resolve(property)).then(|| format!("{name}{SUFFIX}"));
            std::iter::once(name.clone()).chain(file)
        })
        .collect()
    }

    /// Whether the structure itself has this key.
    pub(super) fn has_key(&self, name: &str) -> bool {
        self.0["properties"].get(name).is_some()
    }

    /// Refuses a key that the structure doesn't have.
    pub(super) fn refuse_unknown(&self, values: &Map<String, Value>) -> Result<(), Error> {
        let Some((key, value)) = values.iter().find(|(key, _)| !self.has_key(key)) else { return Ok(()) };
        let known = self.0["properties"].as_object().into_iter().flatten();
        let known: Vec<_> = known.map(|(name, _)| format!("`{name}`")).collect();
        let message = format!("unknown field `{key}`, expected one of {}", known.join(", "));
        Err(Error::Value { key: key.clone(), origin: super::first_origin(value), message })
    }

    /// Whether the key at this path is a secret. The text of a secret is used as it is.
    pub(super) fn has(&self, path: &[String]) -> bool {
        let found = path.iter().try_fold(&self.0, |table, name| self.child(table, name));
        found.is_some_and(is_secret)
    }

    /// Replaces the files that one source names with the secrets in them.
    pub(super) fn read_files(&self, tree: &mut Map<String, Value>) -> Result<(), Error> {
        self.visit(&self.0, tree, "")
    }

    fn visit(&self, schema: &Json, table: &mut Map<String, Value>, above: &str) -> Result<(), Error> {
        for name in table.keys().cloned().collect::<Vec<_>>() {
            let path = format!("{above}{name}");
            let secret = name
                .strip_suffix(SUFFIX)
                .filter(|secret| !has_itself(schema, &name) && self.child(schema, secret).is_some_and(is_secret));
            if let Some(secret) = secret {
                let Some(file) = table.shift_remove(&name) else { continue };
                let origin = file.origin().map(str::to_owned);
                let refuse = |message| Error::Value { key: path.clone(), origin: origin.clone(), message };
                if table.contains_key(secret) {
                    return Err(refuse(format!("`{secret}` is set in the same place: set only one of the two")));
                }
                let ValueKind::String(file) = file.kind else {
                    return Err(refuse("expected the name of a file".to_owned()));
                };
                let text =
                    Secret::read(Path::new(&file)).map_err(|error| refuse(error.to_string()))?.expose().to_owned();
                table.insert(secret.to_owned(), Value::new(origin.as_ref(), ValueKind::String(text)));
            } else if let Some(schema) = self.child(schema, &name)
                && let Some(Value { kind: ValueKind::Table(inner), .. }) = table.get_mut(&name)
            {
                self.visit(schema, inner, &format!("{path}."))?;
            }
        }
        Ok(())
    }

    /// The schema of a key in a table: the key's own schema, or the schema for all keys whose names the user chooses.
    fn child<'a>(&'a self, table: &'a Json, name: &str) -> Option<&'a Json> {
        let named = table["patternProperties"].as_object().and_then(|patterns| patterns.values().next());
        let any = named.or_else(|| table.get("additionalProperties").filter(|schema| schema.is_object()));
        table["properties"].get(name).or(any).map(|schema| self.resolve(schema))
    }

    /// Follows a reference, and looks inside a schema that only makes a value optional.
    fn resolve<'a>(&'a self, schema: &'a Json) -> &'a Json {
        if let Some(target) = schema["$ref"].as_str() {
            return self.0.pointer(target.trim_start_matches('#')).map_or(schema, |schema| self.resolve(schema));
        }
        let mut some = schema["anyOf"].as_array().into_iter().flatten().filter(|one| one["type"] != "null");
        match (some.next(), some.next()) {
            (Some(only), None) => self.resolve(only),
            _ => schema,
        }
    }
}

fn is_secret(schema: &Json) -> bool {
    schema["format"] == FORMAT
}

/// Whether the table has a key of exactly this name, although the name ends like one for a file.
fn has_itself(table: &Json, name: &str) -> bool {
    let listed = table[OWN_FILES].as_array().into_iter().flatten().any(|own| own == name);
    listed || table["properties"].get(name).is_some()
}
