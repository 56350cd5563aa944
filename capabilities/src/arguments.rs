//! The arguments of a call.

use serde_json::Value;

use crate::json::{self, Unreadable};

/// The arguments of a call, read in the one way that leaves no doubt. See [`crate::read_json`].
#[derive(Debug, Clone, PartialEq)]
pub struct Arguments {
    tree: Value,
    text: String,
}

/// Why arguments can't be checked.
#[derive(Debug, thiserror::Error)]
pub enum BadArguments {
    /// They can't be read, or can be read in several ways.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// They are JSON, but no object.
    #[error("are not a JSON object")]
    NoObject,
}

impl Arguments {
    /// Reads arguments. Whoever reads large texts of strangers bounds their size first.
    ///
    /// # Errors
    /// The text is not a JSON object, or has several readings.
    pub fn read(text: &str) -> Result<Self, BadArguments> {
        let tree = json::read(text)?;
        if !tree.is_object() {
            return Err(BadArguments::NoObject);
        }
        let text = tree.to_string();
        Ok(Self { tree, text })
    }

    /// The arguments as a JSON object.
    pub fn tree(&self) -> &Value {
        &self.tree
    }

    /// The arguments as text: exactly what was checked. This is what the tool must get.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The same text, without a copy.
    pub fn into_text(self) -> String {
        self.text
    }
}
