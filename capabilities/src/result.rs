//! The result of a call that was allowed.

use crate::refusal::quote;
use crate::{At, Capability, Grant, Rules, Schemas, Tree};

/// Why the code does not get a result. The call was made.
#[derive(Debug, thiserror::Error)]
pub enum BadResult {
    /// It is too large.
    #[error("the result has {bytes} bytes, and the capability allows at most {max}")]
    Large {
        /// Bytes of the result.
        bytes: u64,
        /// Most bytes.
        max: u64,
    },
    /// It can't be checked against the schema, because it has several readings.
    #[error("the result {0}")]
    Unreadable(#[from] serde_json::Error),
    /// It does not match the JSON Schema.
    #[error("the result does not match the schema of {at}: {why}")]
    Schema {
        /// The capability.
        at: At,
        /// What does not match.
        why: String,
    },
}

impl Grant {
    /// Checks the result of a call, which came as this JSON text.
    ///
    /// # Errors
    /// The code must not get the result.
    pub fn check_result(&self, rules: &Rules, text: &str, schemas: &impl Schemas) -> Result<(), BadResult> {
        let bytes = text.len() as u64;
        if let Some(max) = self.max_result_bytes.filter(|max| bytes > *max) {
            return Err(BadResult::Large { bytes, max });
        }
        let mut tree: Option<Tree> = None;
        for at in self.by.iter().filter(|at| rules.get(**at).and_then(Capability::result).is_some()) {
            let value = match &tree {
                Some(value) => value,
                None => tree.insert(Tree::read(text)?),
            };
            let checked = schemas.result(*at, value, text.len());
            checked.map_err(|why| BadResult::Schema { at: *at, why: quote(&why) })?;
        }
        Ok(())
    }
}
