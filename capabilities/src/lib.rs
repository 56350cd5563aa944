//! Capabilities: which tool calls a program may make, with which arguments, and how often.
//!
//! A [`Set`] is a list of capabilities, and allows nothing else. [`Rules`] are one set or several, of which each must
//! allow a call: that is how a set is narrowed. This crate reads sets, decides calls and compares sets. It does no I/O
//! and knows no jobs. Whoever uses it keeps the counts ([`Counts`]) and checks the JSON Schemas ([`Schemas`]).
//!
//! ```text
//! text ─▶ Set ─▶ Rules ─▶ decide(Call) ─▶ Grant: time-out, rules for the result
//!                            │  │
//!                     Schemas   Counts
//! ```
//!
//! Nothing here may fail open. So:
//!
//! - What a set says has one reading. There are no short forms, and a set with an unknown field, an unknown operator, a
//!   value of a wrong type, a key that stands twice or a constraint that could never fail is refused ([`Malformed`]).
//! - A constraint holds only if its path leads to a value of the type that it is about (`constraint.rs` has a table).
//! - Numbers are compared exactly, and only with numbers. Whoever gets a call may round them, so it must be allowed for
//!   the nearest floats, too ([`Arguments::judge`]).
//! - Arguments are read once ([`Arguments`]), with every digit of their numbers. A key that stands twice is refused, so
//!   their text has one reading, and whoever makes the call sends it on as it is.
//! - Texts are compared by code points. Nothing is normalized: two spellings of `é` are different texts, and so are a
//!   Latin and a Cyrillic `a`. Prefer `in` with a list of what is allowed over `!=` and `not in`.

#![forbid(unsafe_code)]

mod approval;
mod arguments;
mod bound;
mod capability;
mod constraint;
mod counts;
mod covers;
mod decide;
mod exact;
mod malformed;
mod path;
mod pattern;
mod read;
mod refusal;
mod result;
mod rules;
mod schema;
mod search;

pub use approval::Approval;
pub use arguments::{Arguments, BadArguments};
pub use bound::*;
pub use capability::{Capability, Set};
pub use counts::{Counts, InMemory, Take, Taken};
pub use covers::covers;
pub use decide::{Call, Denied, Grant, decide};
pub use exact::{Number, Tree, Unit};
pub use malformed::{Malformed, Why};
pub use path::BadPath;
pub use pattern::{BadPattern, Pattern};
pub use refusal::{Reason, Refusal, Tried};
pub use result::BadResult;
pub use rules::{At, Rules, Schemas, TooManySets, Unchecked};
pub use search::Search;
