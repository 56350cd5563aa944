//! Looks for the capabilities that take a call, without waiting for counts.

use std::time::Duration;

use crate::capability::Capability;
use crate::constraint::{Constraint, Unmet};
use crate::decide::{Call, Grant};
use crate::refusal::{Reason, Refusal, Tried, quote};
use crate::{At, Rules, Schemas, Take, Tree};

/// A search for the capabilities that take a call: one in each set. [`crate::decide()`] is the whole way for counts
/// that answer at once. Others ask their counts for [`Search::takes`], and go on with [`Search::exhausted`] or
/// [`Search::grant`].
pub struct Search<'a, S> {
    rules: &'a Rules,
    call: Call<'a>,
    schemas: &'a S,
    /// The capability that was found in each set.
    found: Vec<usize>,
    /// The capabilities of each set whose pattern matches and which do not take the call.
    tried: Vec<Vec<Tried>>,
}

impl<'a, S: Schemas> Search<'a, S> {
    /// Finds the first capability of each set that would take the call.
    ///
    /// # Errors
    /// A set has none.
    pub fn new(rules: &'a Rules, call: Call<'a>, schemas: &'a S) -> Result<Self, Refusal> {
        let sets = rules.sets().len();
        let mut search = Self { rules, call, schemas, found: Vec::with_capacity(sets), tried: vec![Vec::new(); sets] };
        for set in 0..sets {
            let found = search.next(set, 0)?;
            search.found.push(found);
        }
        Ok(search)
    }

    /// What must be counted in one step before the call is made. May be empty.
    pub fn takes(&self) -> Vec<Take> {
        let chosen = self.chosen();
        chosen.filter_map(|(at, capability)| Some(Take { at, max: capability.max_calls? })).collect()
    }

    /// Looks for the next capability of a set, because that which was found has taken all its calls.
    ///
    /// # Errors
    /// The set has no other.
    pub fn exhausted(&mut self, set: usize) -> Result<(), Refusal> {
        let capability = self.found[set];
        let at = At { set, capability };
        let of_set = &self.rules.sets()[set].capabilities[capability];
        if let Some(max) = of_set.max_calls {
            self.fails(at, of_set, Reason::Exhausted(max));
        }
        self.found[set] = self.next(set, capability + 1)?;
        Ok(())
    }

    /// The leave to make the call, once all is counted.
    pub fn grant(self) -> Grant {
        let min = |fields: Vec<Option<u64>>| fields.into_iter().flatten().min();
        let limits = |field: fn(&Capability) -> Option<u64>| min(self.chosen().map(|(_, c)| field(c)).collect());
        Grant {
            by: self.chosen().map(|(at, _)| at).collect(),
            timeout: limits(|c| c.timeout_ms.map(Into::into)).map(Duration::from_millis),
            max_result_bytes: limits(Capability::max_result_bytes),
        }
    }

    fn chosen(&self) -> impl Iterator<Item = (At, &'a Capability)> {
        let rules = self.rules;
        let found = self.found.iter().enumerate();
        found.map(|(set, &capability)| (At { set, capability }, &rules.sets()[set].capabilities[capability]))
    }

    /// The first capability of a set, from this one on, that would take the call.
    fn next(&mut self, set: usize, from: usize) -> Result<usize, Refusal> {
        let rules = self.rules;
        let capabilities = &rules.sets()[set].capabilities;
        for (number, capability) in capabilities.iter().enumerate().skip(from) {
            if !capability.pattern.matches(self.call.tool) {
                continue;
            }
            let at = At { set, capability: number };
            match self.check(at, capability) {
                Ok(()) => return Ok(number),
                Err(reason) => self.fails(at, capability, reason),
            }
        }
        Err(match std::mem::take(&mut self.tried[set]) {
            none if none.is_empty() => Refusal::unmatched(self.call.tool, capabilities.iter().map(|c| &c.pattern)),
            tried => Refusal::by(self.call.tool, tried),
        })
    }

    fn check(&self, at: At, capability: &Capability) -> Result<(), Reason> {
        let arguments = self.call.arguments;
        let bytes = arguments.text().len() as u64;
        if let Some(max) = capability.max_argument_bytes.filter(|max| bytes > max.get()) {
            return Err(Reason::Size { bytes, max: max.get() });
        }
        let all = |all: &[Constraint], tree: &Tree| all.iter().try_for_each(|constraint| constraint.check(tree));
        let unmet = arguments.judge(&capability.constraints[..], capability.rounded.as_deref(), all);
        unmet.map_err(|Unmet { constraint, actual }| Reason::Constraint { constraint, actual })?;
        match capability.arguments {
            Some(_) => self.schemas.arguments(at, arguments).map_err(|why| Reason::Schema(quote(&why))),
            None => Ok(()),
        }
    }

    fn fails(&mut self, at: At, capability: &Capability, reason: Reason) {
        let pattern = quote(&capability.pattern.to_string());
        self.tried[at.set].push(Tried { at, pattern, reason });
    }
}
