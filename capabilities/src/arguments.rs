//! The arguments of a call.

use crate::Tree;

/// The arguments of a call, read in the one way that leaves no doubt. See [`Tree::read`].
#[derive(Debug, Clone, PartialEq)]
pub struct Arguments {
    tree: Tree,
    /// What it is to a tool that rounds numbers, if that is something else.
    rounded: Option<Tree>,
    text: String,
}

/// Why arguments can't be checked.
#[derive(Debug, thiserror::Error)]
pub enum BadArguments {
    /// They can't be read, or can be read in several ways.
    #[error(transparent)]
    Unreadable(#[from] serde_json::Error),
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
        let tree = Tree::read(text)?;
        if !matches!(tree, Tree::Object(_)) {
            return Err(BadArguments::NoObject);
        }
        let rounded = tree.rounded();
        Ok(Self { tree, rounded, text: text.to_owned() })
    }

    /// What the arguments may be to a tool, each a JSON object: with every digit of their numbers, and, if that differs,
    /// with the nearest floats. Rules must hold for each: 999.99999999999999999 is below 1000, and as a float it is not.
    pub fn readings(&self) -> impl Iterator<Item = &Tree> {
        std::iter::once(&self.tree).chain(&self.rounded)
    }

    /// The arguments as text: what was read, which has no other reading. This is what the tool must get.
    pub fn text(&self) -> &str {
        &self.text
    }
}
