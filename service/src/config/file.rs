//! The TOML file as a source of configuration.

use std::path::Path;

use config::{Value, ValueKind};

use super::Error;
use super::tree::Tree;

/// Reads the file. A message about a syntax error contains the line's number, but not the line, which may contain a
/// secret.
pub(super) fn read(path: &Path) -> Result<Tree, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    parse(path, &text)
}

/// Like [`read`], for a text that was read before.
pub(super) fn parse(path: &Path, text: &str) -> Result<Tree, Error> {
    let table: toml::Table = toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        Error::Syntax { path: path.to_owned(), message: format!("{}, in line {line}", error.message().trim_end()) }
    })?;
    let origin = path.display().to_string();
    let values = table.into_iter().map(|(key, item)| (key, value(&origin, item)));
    Ok(Tree::from(values.collect::<config::Map<_, _>>()))
}

/// An item of a TOML text, in the order of its text.
pub(super) fn value(origin: &String, item: toml::Value) -> Value {
    use toml::Value as Toml;
    let kind = match item {
        Toml::String(text) => ValueKind::String(text),
        Toml::Integer(n) => ValueKind::I64(n),
        Toml::Float(n) => ValueKind::Float(n),
        Toml::Boolean(yes) => ValueKind::Boolean(yes),
        Toml::Datetime(time) => ValueKind::String(time.to_string()),
        Toml::Array(items) => ValueKind::Array(items.into_iter().map(|item| value(origin, item)).collect()),
        Toml::Table(table) => {
            ValueKind::Table(table.into_iter().map(|(key, item)| (key, value(origin, item))).collect())
        }
    };
    Value::new(Some(origin), kind)
}
