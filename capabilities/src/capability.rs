//! A capability, and a set of them.

use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::constraint::Constraint;
use crate::{Approval, Malformed, Pattern, Tree, read};

/// Leave to call the tools that match a pattern, with arguments for which all constraints hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Capability {
    pub(crate) pattern: Pattern,
    pub(crate) constraints: Vec<Constraint>,
    /// What must hold of rounded arguments, if that is something else.
    pub(crate) rounded: Option<Vec<Constraint>>,
    pub(crate) max_calls: Option<NonZeroU32>,
    pub(crate) arguments: Option<Tree>,
    pub(crate) result: Option<Tree>,
    pub(crate) max_argument_bytes: Option<NonZeroU64>,
    pub(crate) max_result_bytes: Option<NonZeroU64>,
    pub(crate) timeout_ms: Option<NonZeroU64>,
    pub(crate) approval: Option<Approval>,
}

impl Capability {
    /// The pattern of the tools' names.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// How many calls the capability allows. `None` if it has no limit.
    pub fn max_calls(&self) -> Option<NonZeroU32> {
        self.max_calls
    }

    /// JSON Schema of the arguments.
    pub fn arguments(&self) -> Option<&Tree> {
        self.arguments.as_ref()
    }

    /// JSON Schema of the result.
    pub fn result(&self) -> Option<&Tree> {
        self.result.as_ref()
    }

    /// Most bytes of a result, as JSON.
    pub fn max_result_bytes(&self) -> Option<u64> {
        self.max_result_bytes.map(NonZeroU64::get)
    }

    /// How long a call may wait for its answer.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout_ms.map(|ms| Duration::from_millis(ms.get()))
    }

    /// What the approval of its calls must be like. `None` if its calls need none.
    pub fn approval(&self) -> Option<Approval> {
        self.approval
    }

    /// What must hold of rounded arguments.
    pub(crate) fn of_rounded(&self) -> &[Constraint] {
        self.rounded.as_ref().unwrap_or(&self.constraints)
    }

    /// The capability as JSON, in the form in which it is read.
    fn to_json(&self) -> Tree {
        let constraints = || Tree::List(self.constraints.iter().map(Constraint::to_json).collect());
        let fields = [
            ("pattern", Some(self.pattern.to_string().as_str().into())),
            ("constraints", (!self.constraints.is_empty()).then(constraints)),
            ("max_calls", self.max_calls.map(|calls| u64::from(calls.get()).into())),
            ("arguments", self.arguments.clone()),
            ("result", self.result.clone()),
            ("max_argument_bytes", self.max_argument_bytes.map(|bytes| bytes.get().into())),
            ("max_result_bytes", self.max_result_bytes.map(|bytes| bytes.get().into())),
            ("timeout_ms", self.timeout_ms.map(|ms| ms.get().into())),
            ("approval", self.approval.map(Approval::to_json)),
        ];
        Tree::Object(fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect())
    }
}

/// A set of capabilities, in the order in which they are tried. A call that none of them allows is refused, so an empty
/// set allows nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Set {
    pub(crate) capabilities: Vec<Capability>,
}

impl Set {
    /// Reads a set: a JSON array of capabilities.
    ///
    /// # Errors
    /// The text is not a set. The error says where, as in `capabilities[2].constraints[0].value`.
    pub fn from_json(text: &str) -> Result<Self, Malformed> {
        read::set(text)
    }

    /// The capabilities in order.
    pub fn capabilities(&self) -> &[Capability] {
        &self.capabilities
    }
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Tree::List(self.capabilities.iter().map(Capability::to_json).collect()).fmt(f)
    }
}

impl Serialize for Set {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.capabilities.iter().map(Capability::to_json))
    }
}

/// Works only in JSON, because only its text shows keys that stand twice.
impl<'de> Deserialize<'de> for Set {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(from)?;
        Self::from_json(text.get()).map_err(D::Error::custom)
    }
}
