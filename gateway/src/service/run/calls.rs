//! The tool calls of a run: those that wait for an answer, and what came of the latest others.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use thermae_bridge::read::read_answer;
use thermae_schemas::{ToolCall, ToolFailure};
use tokio::sync::oneshot;

use super::super::views::CallView;
use crate::budget::Held;
use crate::problem::Problem;

/// Most calls of one run that wait for an answer.
const MOST_WAITING: usize = 4096;
/// Number of calls whose fate is remembered.
const REMEMBERED: usize = 1024;
/// What a call that waits takes besides its text, here and in the client.
const PER_CALL: usize = 2 << 10;
/// What a call that is over takes.
const PER_OVER: usize = 128;

type Reply = Result<Box<RawValue>, ToolFailure>;

/// The tool calls of a run.
#[derive(Default)]
pub(super) struct Calls {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    /// Calls whose answers the client has, and has not sent yet.
    leaving: HashMap<String, Leaving>,
    /// Calls that are over, with the digest of their answer if they were answered. The oldest first.
    over: VecDeque<(String, Option<[u8; 32]>)>,
}

struct Waiting {
    call: ToolCall,
    since: Instant,
    reply: oneshot::Sender<Reply>,
}

/// An answer that the client has not sent yet.
struct Leaving {
    /// Its bytes.
    _held: Held,
    sent: oneshot::Sender<bool>,
}

impl Waiting {
    fn bytes(&self) -> usize {
        PER_CALL + self.call.arguments.raw().get().len()
    }
}

/// What came of an answer.
#[derive(Debug)]
pub(crate) enum Answered {
    /// The code gets it, if this says that it was sent.
    Taken(oneshot::Receiver<bool>),
    /// The same answer came before.
    Again,
    /// Another answer came before.
    Otherwise,
    /// The code does not wait any more.
    Over,
    /// There is no such call.
    Unknown,
}

impl Calls {
    /// Number of calls that wait.
    pub(super) fn count(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.over.len() * PER_OVER
    }

    /// Adds a call. `None` if too many wait already.
    pub(super) fn ask(&mut self, call: ToolCall) -> Option<oneshot::Receiver<Reply>> {
        if self.waiting.len() >= MOST_WAITING {
            return None;
        }
        let (reply, answered) = oneshot::channel();
        let waiting = Waiting { call, since: Instant::now(), reply };
        self.bytes += waiting.bytes();
        self.waiting.push_back(waiting);
        Some(answered)
    }

    fn take(&mut self, call: &str) -> Option<Waiting> {
        let at = self.waiting.iter().position(|waiting| waiting.call.call == call)?;
        let waiting = self.waiting.remove(at)?;
        self.bytes -= waiting.bytes();
        Some(waiting)
    }

    fn remember(&mut self, call: String, answer: Option<[u8; 32]>) {
        if self.over.len() >= REMEMBERED {
            self.over.pop_front();
        }
        self.over.push_back((call, answer));
    }

    /// Hands an answer to its call. What is `held` stays so until it is sent.
    pub(super) fn answer(&mut self, call: &str, payload: &[u8], held: Held) -> Result<Answered, Problem> {
        let said = read_answer(payload).map_err(|error| Problem::new("bad_body", error))?;
        let digest: [u8; 32] = Sha256::digest(payload).into();
        if let Some(waiting) = self.take(call) {
            let gone = waiting.reply.send(said).is_err();
            self.remember(call.to_owned(), (!gone).then_some(digest));
            if gone {
                return Ok(Answered::Over);
            }
            let (sent, taken) = oneshot::channel();
            self.leaving.insert(call.to_owned(), Leaving { _held: held, sent });
            return Ok(Answered::Taken(taken));
        }
        let before = self.over.iter().find(|(over, _)| over == call);
        Ok(match before {
            None => Answered::Unknown,
            Some((_, None)) => Answered::Over,
            Some((_, Some(same))) if *same == digest => Answered::Again,
            Some(_) => Answered::Otherwise,
        })
    }

    /// The client has no answer of this call any more: it was sent, or nobody wants it.
    pub(super) fn left(&mut self, call: &str, sent: bool) {
        if let Some(leaving) = self.leaving.remove(call) {
            let _ = leaving.sent.send(sent);
        }
    }

    /// How long the answer of a call that waits may be kept back: half of what is left of its time.
    pub(super) fn bears(&self, call: &str) -> Duration {
        let waiting = self.waiting.iter().find(|waiting| waiting.call.call == call);
        waiting.map_or(Duration::ZERO, |waiting| {
            Duration::from_millis(waiting.call.within_ms / 2).saturating_sub(waiting.since.elapsed())
        })
    }

    /// The code does not wait for the call any more. Returns whether it still did.
    pub(super) fn give_up(&mut self, call: &str) -> bool {
        let waited = self.take(call).is_some();
        if waited {
            self.remember(call.to_owned(), None);
        }
        waited
    }

    /// Gives up all calls, because the run has ended.
    pub(super) fn close(&mut self) {
        for waiting in std::mem::take(&mut self.waiting) {
            self.remember(waiting.call.call, None);
        }
        self.bytes = 0;
    }

    /// The calls that wait.
    pub(super) fn views(&self, now: Instant) -> Vec<CallView> {
        let view = |waiting: &Waiting| {
            let waited = u64::try_from(now.saturating_duration_since(waiting.since).as_millis()).unwrap_or(u64::MAX);
            CallView {
                call: waiting.call.call.clone(),
                tool: waiting.call.tool.clone(),
                arguments: waiting.call.arguments.clone(),
                within_ms: waiting.call.within_ms,
                waited_ms: waited,
                left_ms: waiting.call.within_ms.saturating_sub(waited),
            }
        };
        self.waiting.iter().map(view).collect()
    }
}

#[cfg(test)]
mod tests {
    use thermae_schemas::JsonText;

    use super::*;
    use crate::Metrics;
    use crate::budget::Budget;

    fn budget() -> Budget {
        Budget::new(1 << 20, &Metrics::new(&prometheus::Registry::new()).unwrap())
    }

    /// What comes of an answer.
    fn answered(calls: &mut Calls, call: &str, payload: &[u8]) -> &'static str {
        match calls.answer(call, payload, budget().hold()) {
            Ok(Answered::Taken(_)) => "taken",
            Ok(Answered::Again) => "again",
            Ok(Answered::Otherwise) => "otherwise",
            Ok(Answered::Over) => "over",
            Ok(Answered::Unknown) => "unknown",
            Err(_) => "bad",
        }
    }

    fn asked(calls: &mut Calls, id: &str) -> oneshot::Receiver<Reply> {
        let call = ToolCall {
            call: id.to_owned(),
            tool: "t".to_owned(),
            arguments: JsonText::new(r#"{"n":1180591620717411303424}"#.to_owned()).unwrap(),
            reply_to: "r".to_owned(),
            within_ms: 60_000,
        };
        calls.ask(call).unwrap()
    }

    #[test]
    fn the_first_answer_counts_and_can_be_repeated() {
        let mut calls = Calls::default();
        let mut reply = asked(&mut calls, "a");
        let view = &calls.views(Instant::now())[0];
        assert_eq!((view.call.as_str(), view.arguments.raw().get()), ("a", r#"{"n":1180591620717411303424}"#));
        for bad in ["{\"oka\": 1}", "1"] {
            assert_eq!(answered(&mut calls, "a", bad.as_bytes()), "bad", "it still waits");
        }
        assert_eq!(answered(&mut calls, "a", br#"{"ok": 0.10}"#), "taken");
        assert_eq!(reply.try_recv().unwrap().unwrap().get(), "0.10");
        assert_eq!(answered(&mut calls, "a", br#"{"ok": 0.10}"#), "again");
        assert_eq!(answered(&mut calls, "a", br#"{"ok": 2}"#), "otherwise");
        assert_eq!(answered(&mut calls, "b", br#"{"ok": 2}"#), "unknown");
        assert_eq!((calls.count(), calls.bytes()), (0, PER_OVER));
    }

    #[test]
    fn a_call_that_was_given_up_takes_no_answer() {
        let mut calls = Calls::default();
        let (_first, second) = (asked(&mut calls, "a"), asked(&mut calls, "b"));
        assert!(calls.give_up("a") && !calls.give_up("a"));
        assert_eq!(answered(&mut calls, "a", br#"{"ok": 1}"#), "over");
        drop(second);
        assert_eq!(answered(&mut calls, "b", br#"{"error": "x"}"#), "over");
        let _third = asked(&mut calls, "c");
        calls.close();
        assert_eq!((answered(&mut calls, "c", br#"{"ok": 1}"#), calls.bytes()), ("over", 3 * PER_OVER));
    }

    #[test]
    fn an_answer_counts_until_it_is_sent_or_given_up() {
        let (mut calls, budget) = (Calls::default(), budget());
        for sent in [true, false] {
            let _reply = asked(&mut calls, "a");
            let mut held = budget.hold();
            assert!(held.grow(1 << 20));
            let Ok(Answered::Taken(mut taken)) = calls.answer("a", br#"{"ok": 1}"#, held) else { panic!("not taken") };
            calls.left("b", true);
            assert!(taken.try_recv().is_err() && !budget.has_room(1));
            calls.left("a", sent);
            assert!(taken.try_recv() == Ok(sent) && budget.has_room(1 << 20));
        }
    }

    #[test]
    fn an_answer_is_kept_back_for_half_of_its_calls_time() {
        let mut calls = Calls::default();
        let _reply = asked(&mut calls, "a");
        let bears = calls.bears("a");
        assert!(bears > Duration::ZERO && bears <= Duration::from_millis(30_000), "{bears:?}");
        assert_eq!(calls.bears("b"), Duration::ZERO);
    }
}
