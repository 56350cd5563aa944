//! Reads a program's configuration into one typed structure: from defaults, then a TOML file, then the environment,
//! then flags.
//!
//! The structure itself defines everything. Its defaults come from `#[serde(default)]`, and its meanings are doc
//! comments, from which `docs/configuration.md` is generated. With `#[serde(deny_unknown_fields)]`, a mistyped key is
//! refused, and the message contains the key's path and its source. `THERMAE_POOLS__DEFAULT__SLOTS=4` sets
//! `pools.default.slots`, and `THERMAE_LOG=debug` sets `log`. A value in the environment that begins with `[` or `{` is
//! read as TOML, so that variables can contain lists and tables, too.
//!
//! Every key `K` of the type [`crate::secret::Secret`] has a sibling `K_file`, which names a file that contains the
//! secret. Both are allowed wherever a key is allowed (for example `THERMAE_AMQP_FILE`). One source may set only one of
//! them. If several sources set them, the later source wins. No message repeats what a source says about a secret.

mod environment;
mod error;
mod file;
mod secrets;
mod tree;

use std::path::Path;

use config::{Config, Map, Source, Value, ValueKind};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use environment::Environment;
pub use error::Error;
pub use secrets::OWN_FILES;
use secrets::Secrets;
use tree::Tree;

/// Prefix of the environment variables that Thermae reads.
pub const ENV_PREFIX: &str = "THERMAE";

/// Values from flags by the key's path: `("pools.default.slots", json!(4))`. A null means that the flag was not given.
pub type Overrides = Vec<(String, serde_json::Value)>;

/// Reads `T` from its defaults, the file, the environment and the flags. A later source overrides an earlier one.
///
/// Variables whose first word is not a key of `T` are ignored, because processes of several kinds share one
/// environment. [`unread`] lists them. An empty variable counts as absent.
///
/// # Errors
/// The file can't be read or is not valid TOML, a key is unknown, or a value does not fit.
pub fn load<T: DeserializeOwned + JsonSchema>(
    file: Option<&Path>,
    env_prefix: &str,
    overrides: Overrides,
) -> Result<T, Error> {
    load_from(file, Environment::of_process(env_prefix), overrides)
}

/// Like [`load`], with a given environment.
fn load_from<T: DeserializeOwned + JsonSchema>(
    file: Option<&Path>,
    environment: Environment,
    overrides: Overrides,
) -> Result<T, Error> {
    let file = file.map(file::read).transpose()?.unwrap_or_default();
    build(merge(&Secrets::of::<T>(), file, environment, overrides)?)
}

/// Like [`load`], for two structures whose keys lie side by side in one table. `Both` is the structure that flattens
/// them; its schema names all keys. Serde could build `Both` itself, but then an error would not name the key's path,
/// because serde buffers the values of a flattened structure.
pub(crate) fn load_both<Both, A, B>(
    file: Option<&Path>,
    env_prefix: &str,
    overrides: Overrides,
) -> Result<(A, B), Error>
where
    Both: JsonSchema,
    A: DeserializeOwned + JsonSchema,
    B: DeserializeOwned,
{
    load_both_from::<Both, A, B>(file, Environment::of_process(env_prefix), overrides)
}

/// Like [`load_both`], with a given environment.
fn load_both_from<Both, A, B>(
    file: Option<&Path>,
    environment: Environment,
    overrides: Overrides,
) -> Result<(A, B), Error>
where
    Both: JsonSchema,
    A: DeserializeOwned + JsonSchema,
    B: DeserializeOwned,
{
    let file = file.map(file::read).transpose()?.unwrap_or_default();
    let schema = Secrets::of::<Both>();
    let values = merge(&schema, file, environment, overrides)?;
    schema.refuse_unknown(&values)?;
    let of_a = Secrets::of::<A>();
    let (a, b) = values.into_iter().partition(|(key, _)| of_a.has_key(key));
    Ok((build(a)?, build(b)?))
}

/// Like [`load`] without flags, for a file whose text was read before. So the text that was checked is the text that is
/// used.
///
/// # Errors
/// The same as for [`load`].
pub fn parse<T: DeserializeOwned + JsonSchema>(path: &Path, text: &str, env_prefix: &str) -> Result<T, Error> {
    let file = file::parse(path, text)?;
    build(merge(&Secrets::of::<T>(), file, Environment::of_process(env_prefix), Vec::new())?)
}

/// Adds the environment and the flags to the file's values, and replaces files by the secrets in them.
fn merge(
    secrets: &Secrets,
    file: Tree,
    environment: Environment,
    overrides: Overrides,
) -> Result<Map<String, Value>, Error> {
    let environment = environment.only(secrets)?;
    let flags = overrides
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| (key, Value::new(Some(&"the command line".to_owned()), kind(value))));
    let mut builder = Config::builder();
    for mut source in [file, environment, flags.collect()] {
        secrets.read_files(source.table())?;
        builder = builder.add_source(source);
    }
    builder.build().and_then(|merged| merged.collect()).map_err(|source| Error::value("", None, source))
}

/// Builds the structure from its values.
fn build<T: DeserializeOwned>(values: Map<String, Value>) -> Result<T, Error> {
    let table = Value::new(None, ValueKind::Table(values.clone()));
    serde_path_to_error::deserialize(table).map_err(|error| {
        let key = error.path().to_string();
        let origin = origin(&values, &key);
        Error::value(&key, origin, error.into_inner())
    })
}

/// Variables with the prefix that belong to no key of `T`. They are meant for another process, or mistyped.
pub fn unread<T: JsonSchema>(env_prefix: &str) -> Vec<String> {
    Environment::of_process(env_prefix).others(&Secrets::of::<T>().keys())
}

/// The source of the value at this path, or of the nearest value above it.
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

/// The source of a value. A table that was made by merging has none of its own, so it gets the source of a value in it.
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
