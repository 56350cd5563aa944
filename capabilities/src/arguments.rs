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
        let rounded = Some(tree.rounded()).filter(|rounded| *rounded != tree);
        Ok(Self { tree, rounded, text: text.to_owned() })
    }

    /// Judges what the arguments may be to a tool: with every digit of their numbers, and with the nearest floats. A rule
    /// must hold for both: 999.99999999999999999 is below 1000, and as a float it is not. `rounded` is the rule for
    /// floats, if that is another one. `holds` gets a rule and a JSON object.
    ///
    /// # Errors
    /// What `holds` says.
    pub fn judge<R: ?Sized, E>(
        &self,
        rule: &R,
        rounded: Option<&R>,
        holds: impl Fn(&R, &Tree) -> Result<(), E>,
    ) -> Result<(), E> {
        holds(rule, &self.tree)?;
        match (rounded, &self.rounded) {
            (None, None) => Ok(()),
            (rounded, tree) => holds(rounded.unwrap_or(rule), tree.as_ref().unwrap_or(&self.tree)),
        }
    }

    /// The arguments as text: what was read, which has no other reading. This is what the tool must get.
    pub fn text(&self) -> &str {
        &self.text
    }
}
