//! Compares what the two sides report about one module, case by case.

use std::collections::{BTreeMap, BTreeSet};

use crate::list::fits;
use crate::{How, Side};

/// Name of an extra case, which passes if the process ended with status 0 and reported its results.
pub const END: &str = "(end)";

/// A case that went differently on the two sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Name of the case in the module.
    pub case: String,
    /// How it went inside; `None` if it doesn't occur there.
    pub inside: Option<How>,
    /// How it went outside; `None` if it doesn't occur there.
    pub outside: Option<How>,
    /// The message of the side that did not pass.
    pub why: String,
}

/// The comparison of one module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compared {
    /// Number of cases that occur on either side.
    pub cases: usize,
    /// Number of cases that went the same.
    pub same: usize,
    /// Cases that went differently.
    pub differences: Vec<Difference>,
}

/// Compares the two sides of one module.
pub fn compare(inside: &Side, outside: &Side) -> Compared {
    let empty = BTreeMap::new();
    let found = |side: &Side| {
        let mut found = side.told.as_ref().map_or_else(|| empty.clone(), |told| told.found.clone());
        found.insert(END.into(), if side.trouble.is_none() && side.told.is_some() { How::Passed } else { How::Failed });
        found
    };
    let (here, there) = (found(inside), found(outside));
    let names: BTreeSet<_> = here.keys().chain(there.keys()).collect();
    let mut compared = Compared { cases: names.len(), ..Compared::default() };
    for name in names {
        let (h, t) = (here.get(name).copied(), there.get(name).copied());
        if h == t {
            compared.same += 1;
        } else {
            let which = if h == Some(How::Passed) { outside } else { inside };
            compared.differences.push(Difference {
                case: name.clone(),
                inside: h,
                outside: t,
                why: reason(which, name),
            });
        }
    }
    compared
}

fn reason(side: &Side, case: &str) -> String {
    if case == END {
        let trouble = side.trouble.as_deref().unwrap_or("told nothing");
        return format!("{trouble}\n{}", side.stderr);
    }
    side.told.as_ref().and_then(|told| told.why.get(case).cloned()).unwrap_or_default()
}

/// The differences of a module, sorted by whether the list explains them, and the list's explanations that are not
/// needed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judged {
    /// Explained differences, with the reason.
    pub explained: Vec<(Difference, String)>,
    /// Differences without an explanation.
    pub unexplained: Vec<Difference>,
    /// Patterns in the list that no longer match a difference.
    pub stale: Vec<String>,
}

/// Sorts differences by the list's reasons for this module.
pub fn judge(differences: Vec<Difference>, reasons: Option<&BTreeMap<String, String>>) -> Judged {
    let mut judged = Judged::default();
    let mut used = BTreeSet::new();
    for difference in differences {
        match reasons.and_then(|r| r.iter().find(|(pattern, _)| fits(pattern, &difference.case))) {
            Some((pattern, why)) => {
                used.insert(pattern.clone());
                judged.explained.push((difference, why.clone()));
            }
            None => judged.unexplained.push(difference),
        }
    }
    let all = reasons.into_iter().flat_map(BTreeMap::keys);
    judged.stale = all.filter(|pattern| !used.contains(*pattern)).cloned().collect();
    judged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Told;

    fn side(found: &[(&str, How)]) -> Side {
        let found = found.iter().map(|(name, how)| (name.to_string(), *how)).collect();
        let told = Told { found, why: BTreeMap::from([("b".into(), "no".into())]), ..Told::default() };
        Side { told: Some(told), trouble: None, stderr: String::new(), took_ms: 0 }
    }

    #[test]
    fn a_case_differs_when_it_went_otherwise_or_does_not_occur() {
        let inside = side(&[("a", How::Passed), ("b", How::Failed), ("c", How::Passed)]);
        let outside = side(&[("a", How::Passed), ("b", How::Passed)]);
        let compared = compare(&inside, &outside);
        assert_eq!((compared.cases, compared.same), (4, 2));
        let names: Vec<_> = compared.differences.iter().map(|d| (d.case.as_str(), d.why.as_str())).collect();
        assert_eq!(names, [("b", "no"), ("c", "")]);
    }

    #[test]
    fn a_process_that_told_nothing_differs_at_its_end() {
        let (mut inside, outside) = (side(&[("a", How::Passed)]), side(&[("a", How::Passed)]));
        (inside.told, inside.trouble) = (None, Some("signal 9".into()));
        let cases: Vec<_> = compare(&inside, &outside).differences.into_iter().map(|d| d.case).collect();
        assert_eq!(cases, [END, "a"]);
    }

    #[test]
    fn what_is_explained_and_no_longer_differs_is_stale() {
        let inside = side(&[("A.x", How::Failed), ("B.x", How::Failed)]);
        let outside = side(&[("A.x", How::Passed), ("B.x", How::Passed)]);
        let reasons = BTreeMap::from([("A.*".into(), "so".into()), ("C.*".into(), "gone".into())]);
        let judged = judge(compare(&inside, &outside).differences, Some(&reasons));
        assert_eq!(judged.explained[0].1, "so");
        assert_eq!(judged.unexplained[0].case, "B.x");
        assert_eq!(judged.stale, ["C.*"]);
    }
}
