//! The tool calls of one run that wait for their answers or for approval, for clients that ask for them.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

/// Most bytes of events that are kept for one run. A run may wait for a day, so this counts for much longer than the
/// bytes of calls that are on their way.
const MOST: usize = 8 << 20;

/// The calls of one run that wait.
#[derive(Debug, Default)]
pub(crate) struct Pending(Mutex<Calls>);

#[derive(Debug, Default)]
struct Calls {
    /// By the order in which they were made.
    waiting: BTreeMap<u64, PendingCall>,
    made: u64,
    bytes: usize,
}

/// A call that waits.
#[derive(Debug, Clone)]
pub(crate) struct PendingCall {
    /// Id of the call.
    pub call: String,
    /// Name of the tool.
    pub tool: String,
    /// The event `tool_call` or `approval`, with the arguments. `None` if there was no room for it.
    pub event: Option<Bytes>,
    /// What it waits for.
    pub waits_for: WaitsFor,
    /// How long the call may wait.
    pub within: Duration,
    began: Instant,
}

/// What a call waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WaitsFor {
    /// The tool's answer.
    Answer,
    /// Somebody's yes.
    Approval {
        /// Pattern of the capability that wants it.
        pattern: String,
        /// Most calls that a yes counts for.
        next: NonZeroU32,
    },
}

impl PendingCall {
    /// How long it has waited.
    pub(crate) fn waited(&self) -> Duration {
        self.began.elapsed()
    }
}

/// Keeps a call among those that wait, until it is dropped.
#[derive(Debug)]
pub(crate) struct Kept<'a> {
    pending: &'a Pending,
    number: u64,
}

impl Pending {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a call that waits from now on.
    pub(crate) fn add(&self, call: &str, tool: &str, event: &Bytes, within: Duration, waits_for: WaitsFor) -> Kept<'_> {
        let mut calls = self.calls();
        let number = calls.made;
        calls.made += 1;
        let event = (calls.bytes + event.len() <= MOST).then(|| event.clone());
        calls.bytes += event.as_ref().map_or(0, Bytes::len);
        let (call, tool, began) = (call.to_owned(), tool.to_owned(), Instant::now());
        let call = PendingCall { call, tool, event, waits_for, within, began };
        calls.waiting.insert(number, call);
        Kept { pending: self, number }
    }

    /// The calls that wait, the oldest first.
    pub(crate) fn list(&self) -> Vec<PendingCall> {
        self.calls().waiting.values().cloned().collect()
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        let mut calls = self.pending.calls();
        if let Some(call) = calls.waiting.remove(&self.number) {
            calls.bytes -= call.event.map_or(0, |event| event.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_kept_in_order_while_they_wait_and_as_far_as_there_is_room() {
        let (pending, within) = (Pending::default(), Duration::from_secs(1));
        let large = Bytes::from(vec![0; MOST - 10]);
        let first = pending.add("1", "t", &large, within, WaitsFor::Answer);
        let second = pending.add("2", "u", &Bytes::from_static(b"12345678901"), within, WaitsFor::Answer);
        let listed: Vec<_> = pending.list().into_iter().map(|c| (c.call, c.tool, c.event.is_some())).collect();
        assert_eq!(listed, [("1".into(), "t".into(), true), ("2".into(), "u".into(), false)]);
        drop(first);
        let third = pending.add("3", "t", &large, within, WaitsFor::Answer);
        assert_eq!(pending.list().iter().filter(|c| c.event.is_some()).count(), 1);
        drop((second, third));
        assert!(pending.list().is_empty() && pending.calls().bytes == 0);
    }
}
