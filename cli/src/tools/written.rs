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
    #[error("has the number {0}, which JSON does not have")]
    Number(f64),
    #[error("is not JSON")]
    Syntax(#[from] serde_json::Error),
}

impl Written {
    /// The first number in it that JSON does not have.
    fn no_json(&self) -> Option<f64> {
        match self {
            Self::Float(number) => (!number.is_finite()).then_some(*number),
            Self::List(items) => items.iter().find_map(Self::no_json),
            Self::Table(table) => table.values().find_map(Self::no_json),
            Self::Flag(_) | Self::Integer(_) | Self::Text(_) => None,
        }
    }
}

impl TryFrom<&Written> for JsonText {
    type Error = NoJson;

    fn try_from(written: &Written) -> Result<Self, NoJson> {
        match written.no_json() {
            Some(number) => Err(NoJson::Number(number)),
            None => Ok(Self::new(serde_json::to_string(written)?)?),
        }
    }
}
