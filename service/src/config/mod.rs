//! Configuration: defaults, then a TOML file, then the environment, then flags, into one typed structure.
//!
//! A structure says all there is to say about itself: defaults by `#[serde(default)]`, meanings by doc comments (the reference
//! in `docs/configuration.md` is made from them), and `#[serde(deny_unknown_fields)]`, so that a typing error is refused with the
//! key's path and where it stands. `THERMAE_POOLS__DEFAULT__SLOTS=4` sets `pools.default.slots`, `THERMAE_LOG=debug` sets `log`.
//! A value of the environment that begins with `[` or `{` is read as TOML, so lists and tables can stand there too.

mod environment;
mod error;

use std::collections::BTreeSet;
use std::path::Path;

use config::{Config, File, FileFormat, Map, Source, Value, ValueKind};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use environment::Environment;
pub use error::Error;

/// Prefix of the environment variables that Thermae reads.
pub const ENV_PREFIX: &str = "THERMAE";

/// Values from flags, by the key's path: `("pools.default.slots", json!(4))`. A null stands for a flag that was not given.
pub type Overrides = Vec<(String, serde_json::Value)>;

/// Reads `T` from its defaults, the file, the environment and the flags; later ones win.
///
/// Variables whose first word is no key of `T` are left alone, since processes of several kinds share one environment;
/// [`unread`] lists them. Empty variables count as absent.
///
/// # Errors
/// The file can't be read or is no TOML; a key is unknown; a value does not fit.
pub fn load<T: DeserializeOwned + JsonSchema>(
    file: Option<&Path>,
    env_prefix: &str,
    overrides: Overrides,
) -> Result<T, Error> {
    load_from(file, Environment::of_process(env_prefix), overrides)
}

/// As [`load`], with the environment given.
fn load_from<T: DeserializeOwned + JsonSchema>(
    file: Option<&Path>,
    environment: Environment,
    overrides: Overrides,
) -> Result<T, Error> {
    let mut builder = Config::builder();
    if let Some(path) = file {
        // The library's own message for a file that can't be opened says less.
        std::fs::metadata(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        builder = builder.add_source(File::from(path).format(FileFormat::Toml));
    }
    builder = builder.add_source(environment.only(&keys::<T>())?);
    for (key, value) in overrides.into_iter().filter(|(_, value)| !value.is_null()) {
        let value = Value::new(Some(&"the command line".to_owned()), kind(value));
        builder = builder.set_override(&key, value).map_err(|source| Error::value(&key, None, source))?;
    }
    let merged = builder.build().map_err(|source| Error::Syntax {
        path: file.map(Path::to_owned).unwrap_or_default(),
        message: source.to_string(),
    })?;
    let tree = merged.collect().unwrap_or_default();
    serde_path_to_error::deserialize(merged).map_err(|error| {
        let key = error.path().to_string();
        let origin = origin(&tree, &key);
        Error::value(&key, origin, error.into_inner())
    })
}

/// Variables with the prefix that `T` has no key for: for another process, or mistyped.
pub fn unread<T: JsonSchema>(env_prefix: &str) -> Vec<String> {
    Environment::of_process(env_prefix).others(&keys::<T>())
}

/// Names of the structure's own keys.
fn keys<T: JsonSchema>() -> BTreeSet<String> {
    let schema = schemars::SchemaGenerator::default().into_root_schema_for::<T>();
    let properties = schema.get("properties").and_then(serde_json::Value::as_object);
    properties.map(|map| map.keys().cloned().collect()).unwrap_or_default()
}

/// Where the value at this path, or the nearest thing above it, was read.
fn origin(tree: &Map<String, Value>, path: &str) -> Option<String> {
    let mut words = path.split('.');
    let mut at = tree.get(words.next()?)?;
    for word in words {
        let ValueKind::Table(table) = &at.kind else { break };
        let Some(next) = table.get(word) else { break };
        at = next;
    }
    first_origin(at)
}

/// A table made by merging has no origin of its own: then that of something in it.
fn first_origin(value: &Value) -> Option<String> {
    value.origin().map(str::to_owned).or_else(|| match &value.kind {
        ValueKind::Table(table) => table.values().find_map(first_origin),
        _ => None,
    })
}

fn kind(value: serde_json::Value) -> ValueKind {
    use serde_json::Value as Json;
    match value {
        Json::Null => ValueKind::Nil,
        Json::Bool(b) => ValueKind::Boolean(b),
        Json::Number(n) => match (n.as_i64(), n.as_u64(), n.as_f64()) {
            (Some(n), _, _) => ValueKind::I64(n),
            (_, Some(n), _) => ValueKind::U64(n),
            (_, _, n) => ValueKind::Float(n.unwrap_or(f64::NAN)),
        },
        Json::String(s) => ValueKind::String(s),
        Json::Array(items) => ValueKind::Array(items.into_iter().map(|item| Value::new(None, kind(item))).collect()),
        Json::Object(map) => {
            ValueKind::Table(map.into_iter().map(|(key, item)| (key, Value::new(None, kind(item)))).collect())
        }
    }
}

#[cfg(test)]
mod tests;
