//! Why a call is refused, in words for the code that made the call and the model that wrote the code.

use std::fmt;
use std::num::NonZeroU32;

use crate::bound::{LONGEST_QUOTE, MOST_TOLD};
use crate::{At, Pattern};

/// A call that a set does not allow. Every quoted text is cut after [`LONGEST_QUOTE`] characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Refusal {
    /// Name of the tool.
    pub tool: String,
    /// The first [`MOST_TOLD`] capabilities whose pattern matches the tool, and why each did not take the call. Empty
    /// if no pattern matches.
    pub tried: Vec<Tried>,
    /// If no pattern matches: the first [`MOST_TOLD`] patterns of the set.
    pub patterns: Vec<String>,
    /// How many more were tried, or how many more patterns there are.
    pub more: usize,
}

/// A capability whose pattern matches, and which did not take the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// Which one.
    pub at: At,
    /// Its pattern.
    pub pattern: String,
    /// Why it did not take the call.
    pub reason: Reason,
}

/// Why a capability whose pattern matches did not take a call. The text goes on from the capability.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// A constraint does not hold.
    #[error("{constraint} does not hold, because {actual}")]
    Constraint {
        /// The constraint.
        constraint: String,
        /// What is there instead: `amount is 5000`.
        actual: String,
    },
    /// The arguments are too large.
    #[error("the arguments have {bytes} bytes, and at most {max} are allowed")]
    Size {
        /// Bytes of the arguments.
        bytes: u64,
        /// Most bytes.
        max: u64,
    },
    /// The arguments do not match the JSON Schema.
    #[error("the arguments do not match its schema: {0}")]
    Schema(String),
    /// All its calls are used.
    #[error("all its calls are used: {0}")]
    Exhausted(NonZeroU32),
}

impl Refusal {
    /// A refusal of a tool that one of these patterns should have matched.
    pub(crate) fn unmatched<'a>(tool: &str, patterns: impl ExactSizeIterator<Item = &'a Pattern>) -> Self {
        let more = patterns.len().saturating_sub(MOST_TOLD);
        let patterns = patterns.take(MOST_TOLD).map(|pattern| quote(&pattern.to_string())).collect();
        Self { tool: quote(tool), tried: Vec::new(), patterns, more }
    }

    /// A refusal by all of these.
    pub(crate) fn by(tool: &str, mut tried: Vec<Tried>) -> Self {
        let more = tried.len().saturating_sub(MOST_TOLD);
        tried.truncate(MOST_TOLD);
        Self { tool: quote(tool), tried, patterns: Vec::new(), more }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not allowed", self.tool)?;
        if self.tried.is_empty() {
            write!(f, ": no capability has a pattern that matches it; ")?;
            match self.patterns.len() {
                0 => write!(f, "there are none")?,
                _ => write!(f, "the patterns are {}", self.patterns.join(", "))?,
            }
        }
        for (number, Tried { at, pattern, reason }) in self.tried.iter().enumerate() {
            let mark = if number == 0 { ":" } else { ";" };
            write!(f, "{mark} {at} ({pattern}): {reason}")?;
        }
        if self.more > 0 {
            write!(f, ", and {} more", self.more)?;
        }
        Ok(())
    }
}

/// A text, cut if it is long.
pub(crate) fn quote(text: &str) -> String {
    match text.char_indices().nth(LONGEST_QUOTE) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
