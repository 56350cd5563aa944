//! Values of a tools file that become JSON, in the order in which they were written.

use config::Map;
use serde::{Deserialize, Serialize};
use thermae_schemas::JsonText;

/// A value of a tools file. Tables keep their order: that of a schema's `properties` is the order of positional
/// arguments.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Written {
    /// A truth value.
    Flag(bool),
    /// An integer.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Written>),
    /// A table.
    Table(Map<String, Written>),
}

/// Why a value can't be JSON. The text goes on from the name of the value.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoJson {
    #[error("has at {at} the number {number}, which JSON does not have")]
    Number { at: String, number: f64 },
    #[error("is not JSON")]
    Syntax(#[from] serde_json::Error),
}

impl Written {
    /// The first number in it that JSON does not have. `at` is the place of this value.
    fn no_json(&self, at: &str) -> Option<NoJson> {
        match self {
            Self::Float(number) if !number.is_finite() => Some(NoJson::Number { at: at.to_owned(), number: *number }),
            Self::List(items) => items.iter().enumerate().find_map(|(n, item)| item.no_json(&format!("{at}/{n}"))),
            Self::Table(table) => table.iter().find_map(|(key, value)| value.no_json(&format!("{at}/{key}"))),
            Self::Flag(_) | Self::Integer(_) | Self::Float(_) | Self::Text(_) => None,
        }
    }
}

impl TryFrom<&Written> for JsonText {
    type Error = NoJson;

    fn try_from(written: &Written) -> Result<Self, NoJson> {
        match written.no_json("") {
            Some(no_json) => Err(no_json),
            None => Ok(Self::new(serde_json::to_string(written)?)?),
        }
    }
}
