//! The tool calls of a run that wait for approval.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::Instant;

use thermae_schemas::{Approval, JsonText, PendingApproval};

use super::super::views::ApprovalView;

/// Most calls of one run that are listed. What the fleet knows of the run has all of them.
const MOST_WAITING: usize = 4096;

/// What a call takes besides its texts.
const PER_CALL: usize = 512;

/// The calls that wait, as far as the gateway has heard of them.
#[derive(Default)]
pub(super) struct Approvals {
    waiting: VecDeque<Waiting>,
    bytes: usize,
}

struct Waiting {
    call: String,
    tool: String,
    arguments: Option<JsonText>,
    pattern: String,
    next: NonZeroU32,
    within_ms: u64,
    since: Instant,
}

impl Waiting {
    fn new(asked: PendingApproval) -> Self {
        let PendingApproval { call, tool, arguments, pattern, next, left_ms, .. } = asked;
        Self { call, tool, arguments, pattern, next, within_ms: left_ms, since: Instant::now() }
    }

    fn bytes(&self) -> usize {
        let arguments = self.arguments.as_ref().map_or(0, |arguments| arguments.raw().get().len());
        PER_CALL + arguments + self.tool.len() + self.pattern.len()
    }

    fn waited_ms(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.since).as_millis()).unwrap_or(u64::MAX)
    }
}

impl Approvals {
    /// Number of calls that wait.
    pub(super) fn count(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn add(&mut self, waiting: Waiting) {
        if self.waiting.len() < MOST_WAITING && self.waiting.iter().all(|known| known.call != waiting.call) {
            self.bytes += waiting.bytes();
            self.waiting.push_back(waiting);
        }
    }

    /// A call waits for approval.
    pub(super) fn asked(&mut self, asked: Approval) {
        let Approval { call, tool, arguments, pattern, next, reply_to, within_ms } = asked;
        self.add(Waiting::new(PendingApproval {
            call,
            tool,
            arguments: Some(arguments),
            omitted: false,
            pattern,
            next,
            reply_to,
            within_ms,
            waited_ms: 0,
            left_ms: within_ms,
        }));
    }

    /// These calls wait, and no others.
    pub(super) fn are(&mut self, all: Vec<PendingApproval>) {
        self.close();
        all.into_iter().for_each(|asked| self.add(Waiting::new(asked)));
    }

    /// A call does not wait any more.
    pub(super) fn over(&mut self, call: &str) {
        if let Some(at) = self.waiting.iter().position(|waiting| waiting.call == call)
            && let Some(waiting) = self.waiting.remove(at)
        {
            self.bytes -= waiting.bytes();
        }
    }

    /// No call waits any more.
    pub(super) fn close(&mut self) {
        *self = Self::default();
    }

    /// The calls that wait. What tells that a call does not wait any more can get lost, so their own time counts, too.
    pub(super) fn views(&self, now: Instant) -> Vec<ApprovalView> {
        let waits = self.waiting.iter().filter(|waiting| waiting.waited_ms(now) < waiting.within_ms);
        let view = |waiting: &Waiting| ApprovalView {
            call: waiting.call.clone(),
            tool: waiting.tool.clone(),
            arguments: waiting.arguments.clone(),
            pattern: waiting.pattern.clone(),
            next: waiting.next,
            left_ms: waiting.within_ms.saturating_sub(waiting.waited_ms(now)),
        };
        waits.map(view).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_listed_until_they_are_over() {
        let asked = |call: &str| Approval {
            call: call.to_owned(),
            tool: "t".to_owned(),
            arguments: JsonText::new(r#"{"n":18446744073709551617,"a":1.50}"#.to_owned()).unwrap(),
            pattern: "t".to_owned(),
            next: NonZeroU32::MIN,
            reply_to: "acme.w".to_owned(),
            within_ms: 60_000,
        };
        let mut approvals = Approvals::default();
        for call in ["a", "b", "a"] {
            approvals.asked(asked(call));
        }
        let views = approvals.views(Instant::now());
        assert_eq!((views.len(), approvals.count()), (2, 2), "the same event can come twice");
        assert_eq!(views[0].arguments.as_ref().unwrap().raw().get(), r#"{"n":18446744073709551617,"a":1.50}"#);
        approvals.over("a");
        approvals.over("none");
        assert_eq!(approvals.views(Instant::now())[0].call, "b");
        let late = Instant::now() + std::time::Duration::from_secs(61);
        assert!(approvals.views(late).is_empty());
        approvals.are(Vec::new());
        assert_eq!((approvals.count(), approvals.bytes()), (0, 0));
    }
}
