//! Approval: calls that a capability takes only after somebody's yes.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use crate::{Capability, Grant, Rules, Tree};

/// Each call that the capability takes needs a yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Approval {
    /// Most calls that one yes counts for: the call that was asked about, and the next ones that the capability takes.
    pub next: NonZeroU32,
    /// How long a call waits for the decision. `None`: as long as the call may wait at all.
    pub(crate) timeout_ms: Option<NonZeroU64>,
}

impl Approval {
    /// How long a call waits for the decision. `None`: as long as the call may wait at all.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout_ms.map(|ms| Duration::from_millis(ms.get()))
    }

    /// The stricter of both, in each respect.
    fn and(self, other: Self) -> Self {
        let timeout_ms = self.timeout_ms.into_iter().chain(other.timeout_ms).min();
        Self { next: self.next.min(other.next), timeout_ms }
    }

    /// Whether calls pass under this one at least as freely as under another one.
    pub(crate) fn is_as_free_as(&self, other: &Self) -> bool {
        let waits = |approval: &Self| approval.timeout_ms.map_or(u64::MAX, NonZeroU64::get);
        self.next >= other.next && waits(self) >= waits(other)
    }

    /// The approval as JSON, in the form in which it is read.
    pub(crate) fn to_json(self) -> Tree {
        let next = (self.next > NonZeroU32::MIN).then(|| ("next".to_owned(), u64::from(self.next.get()).into()));
        let timeout = self.timeout_ms.map(|ms| ("timeout_ms".to_owned(), ms.get().into()));
        Tree::Object(next.into_iter().chain(timeout).collect())
    }
}

impl Rules {
    /// What the approval of a call must be like: the strictest of all that the capabilities of its grant want. `None`
    /// if none of them wants one.
    pub fn approval(&self, grant: &Grant) -> Option<Approval> {
        let wanted = grant.by.iter().filter_map(|at| self.get(*at).and_then(Capability::approval));
        wanted.reduce(Approval::and)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Arguments, Call, InMemory, Rules, Set, Unchecked, decide};

    fn rules(set: &str) -> Rules {
        Set::from_json(set).unwrap().into()
    }

    #[test]
    fn a_call_needs_the_strictest_approval_of_all_sets() {
        let wide = r#"[{"pattern": "pay", "approval": {"next": 5, "timeout_ms": 9}}, {"pattern": "ask"}]"#;
        let narrowed = rules(wide).narrow(rules(r#"[{"pattern": "**", "approval": {"next": 2}}]"#)).unwrap();
        let arguments = Arguments::read("{}").unwrap();
        let approval = |rules: &Rules, tool| {
            let call = Call { tool, arguments: &arguments };
            let grant = decide(rules, call, &Unchecked, &InMemory::default()).unwrap();
            rules.approval(&grant).map(|one| (one.next.get(), one.timeout().map(|time| time.as_millis())))
        };
        assert_eq!(approval(&rules(wide), "pay"), Some((5, Some(9))));
        assert_eq!(approval(&rules(wide), "ask"), None);
        assert_eq!(approval(&narrowed, "pay"), Some((2, Some(9))));
        assert_eq!(approval(&narrowed, "ask"), Some((2, None)));
    }

    #[test]
    fn an_approval_is_written_as_it_was_read() {
        for text in [
            r#"[{"pattern":"t","approval":{}}]"#,
            r#"[{"pattern":"t","approval":{"next":7}}]"#,
            r#"[{"pattern":"t","approval":{"next":7,"timeout_ms":1}}]"#,
        ] {
            let set = Set::from_json(text).unwrap();
            assert_eq!(Set::from_json(&set.to_string()).unwrap(), set);
            let json: serde_json::Value = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_value(&set).unwrap(), json);
        }
    }
}
