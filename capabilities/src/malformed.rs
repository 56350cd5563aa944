//! Why a text is not a set of capabilities.

use crate::bound::{
    DEEPEST_CONSTRAINT, LARGEST_SCHEMA, LARGEST_SET, LARGEST_VALUE, MOST_CAPABILITIES, MOST_CONSTRAINTS, MOST_LISTED,
};
use crate::path::BadPath;
use crate::pattern::BadPattern;

/// A text that is not a set of capabilities.
#[derive(Debug, thiserror::Error)]
#[error("{at}: {why}")]
pub struct Malformed {
    /// Where the fault is: `capabilities[2].constraints[0].value`. `capabilities` is the whole set.
    pub at: String,
    /// What is wrong there.
    #[source]
    pub why: Why,
}

/// What is wrong in a set. The text goes on from the place.
#[derive(Debug, thiserror::Error)]
pub enum Why {
    /// The text is no JSON, or has several readings.
    #[error("can't be read: {0}")]
    Unreadable(#[source] serde_json::Error),
    /// A value has another type than it must have.
    #[error("must be {wanted}, and is {found}")]
    Type {
        /// What must stand there.
        wanted: &'static str,
        /// What stands there.
        found: String,
    },
    /// A field that must be there is not.
    #[error("lacks {0:?}")]
    Missing(&'static str),
    /// An object has a field that it can't have.
    #[error("has the unknown field {field}; the fields are {known}")]
    UnknownField {
        /// The field.
        field: String,
        /// All fields that it can have.
        known: &'static str,
    },
    /// An operator that does not exist.
    #[error("{op} is no operator; the operators are {known}")]
    UnknownOp {
        /// The operator.
        op: String,
        /// All operators.
        known: String,
    },
    /// `exists` or `not exists` with a value.
    #[error("must be left out: {0:?} takes no value")]
    NeedlessValue(&'static str),
    /// `!=` or `not in` with null.
    #[error("can't be null for {0:?}: null counts as not given; use \"exists\"")]
    NotNull(&'static str),
    /// An empty list or text, which says nothing or forbids everything.
    #[error("is empty; {0}")]
    Empty(&'static str),
    /// A pattern that is none.
    #[error(transparent)]
    Pattern(#[from] BadPattern),
    /// A path that is none.
    #[error(transparent)]
    Path(#[from] BadPath),
    /// The set is too large.
    #[error("has more than {LARGEST_SET} bytes")]
    LargeSet,
    /// The set has too many capabilities.
    #[error("has more than {MOST_CAPABILITIES} capabilities")]
    Capabilities,
    /// A capability has too many constraints.
    #[error("has more than {MOST_CONSTRAINTS} constraints, those in \"and\" and \"or\" included")]
    Constraints,
    /// `and` and `or` are nested too deeply.
    #[error("is nested deeper than {DEEPEST_CONSTRAINT} levels of \"and\" and \"or\"")]
    Deep,
    /// A list is too long.
    #[error("has more than {MOST_LISTED} values")]
    Listed,
    /// The value of a constraint is too large.
    #[error("has more than {LARGEST_VALUE} bytes")]
    LargeValue,
    /// A JSON Schema is too large.
    #[error("has more than {LARGEST_SCHEMA} bytes")]
    LargeSchema,
}
