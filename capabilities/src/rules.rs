//! One set or several, of which each must allow a call.

use std::fmt;

use crate::bound::MOST_SETS;
use crate::{Arguments, Capability, Set, Tree};

/// What decides calls: one set or several. A call needs the leave of every set, and each set counts on its own. So
/// narrowed rules can't allow what the rules before refused, whatever the further set says.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    sets: Vec<Set>,
}

/// Rules were narrowed too often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("rules have at most {MOST_SETS} sets")]
pub struct TooManySets;

/// The place of a capability in rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At {
    /// Number of the set, from 0.
    pub set: usize,
    /// Number of the capability in the set, from 0.
    pub capability: usize,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.set {
            0 => write!(f, "capabilities[{}]", self.capability),
            set => write!(f, "capabilities[{}] of narrowing {set}", self.capability),
        }
    }
}

/// Checks arguments and results against the JSON Schemas of capabilities. It is asked only about capabilities that have
/// the schema.
pub trait Schemas {
    /// Checks arguments against the schema of the capability at this place.
    ///
    /// # Errors
    /// The arguments do not match, in words, or the schema can't be checked.
    fn arguments(&self, at: At, arguments: &Arguments) -> Result<(), String>;

    /// Checks a result, which had this many bytes, against the schema of the capability at this place.
    ///
    /// # Errors
    /// The result does not match, in words, or the schema can't be checked.
    fn result(&self, at: At, result: &Tree, bytes: usize) -> Result<(), String>;
}

/// For rules without schemas. Refuses whatever a schema must be checked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unchecked;

impl Schemas for Unchecked {
    fn arguments(&self, _: At, _: &Arguments) -> Result<(), String> {
        Err("schemas can't be checked here".to_owned())
    }

    fn result(&self, _: At, _: &Tree, _: usize) -> Result<(), String> {
        Err("schemas can't be checked here".to_owned())
    }
}

impl Rules {
    /// The rules of one set.
    pub fn new(set: Set) -> Self {
        Self { sets: vec![set] }
    }

    /// Narrows the rules: a call needs the leave of these rules and of all the child's, too.
    ///
    /// # Errors
    /// There would be more than [`MOST_SETS`] sets.
    pub fn narrow(mut self, child: impl Into<Self>) -> Result<Self, TooManySets> {
        self.sets.extend(child.into().sets);
        if self.sets.len() > MOST_SETS { Err(TooManySets) } else { Ok(self) }
    }

    /// The sets in order, the first one first.
    pub fn sets(&self) -> &[Set] {
        &self.sets
    }

    /// Every capability of every set, with its place.
    pub fn capabilities(&self) -> impl Iterator<Item = (At, &Capability)> {
        let sets = self.sets.iter().enumerate();
        sets.flat_map(|(set, of_set)| {
            let capabilities = of_set.capabilities.iter().enumerate();
            capabilities.map(move |(capability, value)| (At { set, capability }, value))
        })
    }

    /// The capability at this place.
    pub fn get(&self, at: At) -> Option<&Capability> {
        self.sets.get(at.set)?.capabilities.get(at.capability)
    }

    /// Whether some call of this tool may be allowed: each set has a capability for it.
    pub fn names(&self, tool: &str) -> bool {
        self.sets.iter().all(|set| set.capabilities.iter().any(|capability| capability.pattern.matches(tool)))
    }

    /// Estimates the work to decide a call of this tool with this many bytes of arguments, in bytes read. Schemas are
    /// not counted.
    pub fn cost(&self, tool: &str, bytes: usize) -> usize {
        let matching = self.capabilities().filter(|(_, capability)| capability.pattern.matches(tool));
        let constraints: usize = matching.map(|(_, capability)| capability.constraints.len()).sum();
        bytes.saturating_mul(constraints.saturating_add(2))
    }
}

impl From<Set> for Rules {
    fn from(set: Set) -> Self {
        Self::new(set)
    }
}
