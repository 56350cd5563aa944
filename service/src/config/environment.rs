//! The environment as a source of configuration.

use std::collections::{BTreeMap, BTreeSet};

use config::{Value, ValueKind};

use super::Error;
use super::secrets::Secrets;
use super::tree::Tree;

/// Why a list or table in a variable can't be read. A message does not repeat the text, which may be a secret.
#[derive(Debug, thiserror::Error)]
enum Malformed {
    #[error("{}", .0.message())]
    Syntax(#[from] toml::de::Error),
    #[error("expected one value")]
    NotOne,
}

/// The environment variables with one prefix.
#[derive(Debug, Clone)]
pub(super) struct Environment {
    prefix: String,
    /// The path of the key and the value, by the variable's full name.
    variables: BTreeMap<String, (Vec<String>, String)>,
}

impl Environment {
    /// The variables of this process.
    pub(super) fn of_process(prefix: &str) -> Self {
        // Variables that are not UTF-8 can't be meant for us.
        let text =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Self::new(prefix, text)
    }

    pub(super) fn new(prefix: &str, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let start = format!("{prefix}_");
        let variables = variables
            .into_iter()
            .filter(|(_, value)| !value.trim().is_empty())
            .filter_map(|(name, value)| {
                let path = name.strip_prefix(&start)?.to_ascii_lowercase();
                let path = path.split("__").map(str::to_owned).collect();
                Some((name, (path, value)))
            })
            .collect();
        Self { prefix: prefix.to_owned(), variables }
    }

    /// Names of the variables whose first word is not one of these keys.
    pub(super) fn others(&self, keys: &BTreeSet<String>) -> Vec<String> {
        self.variables.iter().filter(|(_, (path, _))| !keys.contains(&path[0])).map(|(name, _)| name.clone()).collect()
    }

    /// The values for the keys of one structure. Values are parsed, except those of secrets.
    pub(super) fn only(&self, secrets: &Secrets) -> Result<Tree, Error> {
        let keys = secrets.keys();
        let mut tree = Tree::default();
        for (name, (path, text)) in self.variables.iter().filter(|(_, (path, _))| keys.contains(&path[0])) {
            let kind = if secrets.has(path) { Ok(ValueKind::String(text.clone())) } else { parse(name, text) };
            let kind = kind.map_err(|error| Error::Value {
                key: path.join("."),
                origin: Some(name.clone()),
                message: error.to_string(),
            })?;
            tree.insert(path, Value::new(Some(name), kind));
        }
        tracing::trace!(prefix = self.prefix, "environment read");
        Ok(tree)
    }
}

/// Parses lists and tables as TOML. Everything else stays text, which the types of the structure read later.
fn parse(name: &String, text: &str) -> Result<ValueKind, Malformed> {
    if !text.starts_with(['[', '{']) {
        return Ok(ValueKind::String(text.to_owned()));
    }
    let mut table: toml::Table = toml::from_str(&format!("value = {text}"))?;
    let value = table.remove("value").ok_or(Malformed::NotOne)?;
    Ok(super::file::value(name, value).kind)
}
