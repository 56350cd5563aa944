//! Compares sets that do not come from each other by narrowing.

use std::num::{NonZeroU32, NonZeroU64};

use crate::capability::Capability;
use crate::constraint::{Constraint, Test};
use crate::exact::Tree;
use crate::path::Found;
use crate::{Rules, Set};

/// Most pairs of constraints that a comparison looks at. Beyond that, nothing is proven.
const MOST_PAIRS: u32 = 1 << 16;

/// Whether `a` allows every row of calls that `b` allows, with results as large, time-outs as long, and no more
/// approval. `true` only if
/// that is proven. `false` means that it is not so, or that this crate can't tell.
pub fn covers(a: &Rules, b: &Rules) -> bool {
    let mut proof = Proof { left: MOST_PAIRS };
    // Whatever `b` allows, each of its sets allows.
    a.sets().iter().all(|a| b.sets().iter().any(|b| set_covers(&mut proof, a, b)))
}

fn set_covers(proof: &mut Proof, a: &Set, b: &Set) -> bool {
    b.capabilities.iter().all(|of_b| {
        let target = a.capabilities.iter().position(|of_a| admits_all(proof, of_a, of_b) && lasts(of_a, b));
        // A call may be taken by any capability before the target.
        target.is_some_and(|target| {
            let mut takers = a.capabilities[..=target].iter().filter(|of_a| of_a.pattern.overlaps(&of_b.pattern));
            takers.all(|of_a| as_free(of_a, of_b))
        })
    })
}

/// Whether a capability admits every call that another one admits, while it has calls left.
fn admits_all(proof: &mut Proof, a: &Capability, b: &Capability) -> bool {
    a.pattern.contains(&b.pattern)
        && at_least(a.max_argument_bytes, b.max_argument_bytes)
        && (a.arguments.is_none() || a.arguments == b.arguments)
        && proof.all_implied(&b.constraints, &a.constraints)
        && (a.rounded.is_none() && b.rounded.is_none() || proof.all_implied(b.of_rounded(), a.of_rounded()))
}

/// Whether a capability has a call left for each that a set allows and that may come to it.
fn lasts(a: &Capability, b: &Set) -> bool {
    let Some(max) = a.max_calls else { return true };
    let coming = b.capabilities.iter().filter(|of_b| of_b.pattern.overlaps(&a.pattern));
    let calls: Option<u64> = coming.map(|of_b| of_b.max_calls.map(|calls| u64::from(NonZeroU32::get(calls)))).sum();
    calls.is_some_and(|calls| calls <= u64::from(max.get()))
}

/// Whether what comes after the choice of a capability is as free: approval, time-out and result.
fn as_free(a: &Capability, b: &Capability) -> bool {
    (a.result.is_none() || a.result == b.result)
        && at_least(a.max_result_bytes, b.max_result_bytes)
        && at_least(a.timeout_ms, b.timeout_ms)
        && match (&a.approval, &b.approval) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(a), Some(b)) => a.is_as_free_as(b),
        }
}

/// Whether one limit is none, or at least another. `None` is no limit.
fn at_least(a: Option<NonZeroU64>, b: Option<NonZeroU64>) -> bool {
    a.is_none_or(|a| b.is_some_and(|b| a >= b))
}

/// An attempt to prove that constraints follow from others.
struct Proof {
    /// How many more pairs of constraints it looks at.
    left: u32,
}

impl Proof {
    /// Whether all of `wanted` hold wherever all of `given` hold.
    fn all_implied(&mut self, given: &[Constraint], wanted: &[Constraint]) -> bool {
        wanted.iter().all(|wanted| self.implied(given, wanted))
    }

    /// Whether `wanted` holds wherever all of `given` hold.
    fn implied(&mut self, given: &[Constraint], wanted: &Constraint) -> bool {
        given.iter().any(|given| self.implies(given, wanted))
            || match wanted {
                Constraint::At(..) => false,
                Constraint::All(all) => self.all_implied(given, all),
                Constraint::Any(any) => any.iter().any(|wanted| self.implied(given, wanted)),
            }
    }

    /// Whether `wanted` holds wherever `given` holds.
    fn implies(&mut self, given: &Constraint, wanted: &Constraint) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        if given == wanted {
            return true;
        }
        match (given, wanted) {
            (Constraint::At(a, given), Constraint::At(b, wanted)) => a == b && test_implies(given, wanted),
            (Constraint::Any(any), _) => any.iter().all(|given| self.implies(given, wanted)),
            (Constraint::All(all), _) => self.implied(all, wanted),
            (_, Constraint::All(all)) => all.iter().all(|wanted| self.implies(given, wanted)),
            (_, Constraint::Any(any)) => any.iter().any(|wanted| self.implies(given, wanted)),
        }
    }
}

/// Whether `wanted` holds for every value for which `given` holds.
fn test_implies(given: &Test, wanted: &Test) -> bool {
    // A test that only some values pass: try each of them.
    match given {
        Test::Equal(value) => return wanted.holds_for(value),
        Test::In(list) => return list.iter().all(|value| wanted.holds_for(value)),
        Test::NotExists => return *wanted == Test::NotExists,
        _ => {}
    }
    match wanted {
        // No other test holds for null, or for nothing.
        Test::Exists => true,
        Test::NotExists => false,
        Test::NotEqual(other) => excludes(given, other) && only_type_of(given, other),
        Test::NotIn(list) => {
            list.iter().any(|other| only_type_of(given, other)) && list.iter().all(|other| excludes(given, other))
        }
        Test::Equal(_) | Test::In(_) => given == wanted,
        _ => bound_implies(given, wanted),
    }
}

/// Whether no value for which `given` holds is `other`.
fn excludes(given: &Test, other: &Tree) -> bool {
    !given.holds(Found::Value(other))
}

/// Whether every value for which `given` holds has the type of `other`.
fn only_type_of(given: &Test, other: &Tree) -> bool {
    match given {
        Test::Less(_) | Test::AtMost(_) | Test::More(_) | Test::AtLeast(_) => matches!(other, Tree::Number(_)),
        Test::Starts(_) | Test::Ends(_) | Test::Contains(_) => matches!(other, Tree::Text(_)),
        Test::Equal(value) | Test::NotEqual(value) => value.has_type_of(other),
        Test::In(list) | Test::NotIn(list) => list.iter().all(|value| value.has_type_of(other)),
        Test::Exists | Test::NotExists => false,
    }
}

/// The same for bounds of numbers and parts of texts.
fn bound_implies(given: &Test, wanted: &Test) -> bool {
    match (given, wanted) {
        (Test::Less(a), Test::Less(b) | Test::AtMost(b)) | (Test::AtMost(a), Test::AtMost(b)) => a <= b,
        (Test::AtMost(a), Test::Less(b)) => a < b,
        (Test::More(a), Test::More(b) | Test::AtLeast(b)) | (Test::AtLeast(a), Test::AtLeast(b)) => a >= b,
        (Test::AtLeast(a), Test::More(b)) => a > b,
        (Test::Starts(a), Test::Starts(b)) => a.starts_with(b),
        (Test::Ends(a), Test::Ends(b)) => a.ends_with(b),
        (Test::Starts(a) | Test::Ends(a) | Test::Contains(a), Test::Contains(b)) => a.contains(b),
        _ => false,
    }
}
