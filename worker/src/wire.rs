//! Messages to clients that contain JSON of a job. This JSON is written as it came. The messages can be read as
//! [`thermae_schemas::Event`].

use std::num::NonZeroU32;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thermae_schemas::{OLDEST, Outcome, RunInfo};

use crate::bundle::Bundle;
use crate::pending::{PendingCall, WaitsFor};
use crate::told::Told;
use crate::work::Work;

#[derive(Serialize)]
struct Event<'a> {
    protocol: u32,
    job: &'a str,
    attempt: u32,
    #[serde(flatten)]
    body: Body<'a>,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Body<'a> {
    Display {
        data: &'a RawValue,
    },
    ToolCall(Call<'a>),
    Approval(Approval<'a>),
    Result {
        #[serde(flatten)]
        outcome: &'a Outcome,
        #[serde(skip_serializing_if = "Option::is_none")]
        value: &'a Option<Bundle>,
        #[serde(skip_serializing_if = "<[Bundle]>::is_empty")]
        displays: &'a [Bundle],
    },
    Run {
        #[serde(flatten)]
        info: &'a RunInfo,
        #[serde(skip_serializing_if = "<[Waiting<'a>]>::is_empty")]
        calls: &'a [Waiting<'a>],
        #[serde(skip_serializing_if = "<[Waiting<'a>]>::is_empty")]
        approvals: &'a [Waiting<'a>],
    },
}

/// A tool call that waits, with the fields of [`thermae_schemas::PendingCall`], or with those of
/// [`thermae_schemas::PendingApproval`].
#[derive(Serialize)]
struct Waiting<'a> {
    call: &'a str,
    tool: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    omitted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pattern: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<NonZeroU32>,
    reply_to: &'a str,
    within_ms: u64,
    waited_ms: u64,
    left_ms: u64,
}

impl<'a> Waiting<'a> {
    fn new(call: &'a PendingCall, reply_to: &'a str) -> Self {
        #[derive(Deserialize)]
        struct Event<'b> {
            #[serde(borrow)]
            arguments: &'b RawValue,
        }
        let event = call.event.as_deref().and_then(|event| serde_json::from_slice::<Event<'a>>(event).ok());
        let ms = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let waited = call.waited();
        let (pattern, next) = match &call.waits_for {
            WaitsFor::Answer => (None, None),
            WaitsFor::Approval { pattern, next } => (Some(pattern.as_str()), Some(*next)),
        };
        Self {
            call: &call.call,
            tool: &call.tool,
            arguments: event.as_ref().map(|event| event.arguments),
            omitted: event.is_none(),
            pattern,
            next,
            reply_to,
            within_ms: ms(call.within),
            waited_ms: ms(waited),
            left_ms: ms(call.within.saturating_sub(waited)),
        }
    }
}

/// A tool call, with the fields of [`thermae_schemas::ToolCall`].
#[derive(Serialize)]
pub(crate) struct Call<'a> {
    pub call: &'a str,
    pub tool: &'a str,
    pub arguments: &'a RawValue,
    pub reply_to: &'a str,
    pub within_ms: u64,
}

/// A tool call that waits for approval, with the fields of [`thermae_schemas::Approval`].
#[derive(Serialize)]
pub(crate) struct Approval<'a> {
    pub call: &'a str,
    pub tool: &'a str,
    pub arguments: &'a RawValue,
    pub pattern: &'a str,
    pub next: NonZeroU32,
    pub reply_to: &'a str,
    pub within_ms: u64,
}

/// Writes the event `display`.
pub(crate) fn display(work: &Work, data: &RawValue) -> serde_json::Result<Bytes> {
    write(work, work.attempt, Body::Display { data })
}

/// Writes the event `tool_call`.
pub(crate) fn tool_call(work: &Work, call: Call<'_>) -> serde_json::Result<Bytes> {
    write(work, work.attempt, Body::ToolCall(call))
}

/// Writes the event `approval`.
pub(crate) fn approval(work: &Work, approval: Approval<'_>) -> serde_json::Result<Bytes> {
    write(work, work.attempt, Body::Approval(approval))
}

/// Writes the event `run`, the answer to a question with this id. `info` has everything but the calls, whose answers
/// and decisions go to `reply_to`.
pub(crate) fn run(
    question: &str,
    attempt: u32,
    info: &RunInfo,
    calls: &[PendingCall],
    reply_to: &str,
) -> serde_json::Result<Bytes> {
    let (calls, approvals): (Vec<_>, Vec<_>) =
        calls.iter().map(|call| Waiting::new(call, reply_to)).partition(|call| call.pattern.is_none());
    let body = Body::Run { info, calls: &calls, approvals: &approvals };
    let event = Event { protocol: OLDEST, job: question, attempt, body };
    serde_json::to_vec(&event).map(Bytes::from)
}

/// Writes the event `result`.
pub(crate) fn result(work: &Work, attempt: u32, told: &Told) -> serde_json::Result<Bytes> {
    let Told { outcome, value, displays } = told;
    write(work, attempt, Body::Result { outcome, value, displays })
}

fn write(work: &Work, attempt: u32, body: Body<'_>) -> serde_json::Result<Bytes> {
    let event = Event { protocol: OLDEST, job: work.key.job.as_str(), attempt, body };
    serde_json::to_vec(&event).map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use thermae_schemas::{Event as Read, EventBody, JsonText, Status, ToolCall};

    use super::*;
    use crate::bundle;
    use crate::work::tests::work;

    fn raw(text: &str) -> Bundle {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn what_is_written_here_is_read_as_the_wires_own() {
        let work = work();
        let read = |bytes: Bytes| serde_json::from_slice::<Read>(&bytes).unwrap();
        let shown = raw(r#"{"text/plain": "x", "n": [1.5, {}]}"#);
        let tree: thermae_schemas::MimeBundle = serde_json::from_str(shown.get()).unwrap();
        let event = |attempt, body| Read::new(work.key.job.clone(), attempt, body);
        assert_eq!(read(display(&work, &shown).unwrap()), event(1, EventBody::Display { data: tree.clone() }));
        let call = Call { call: "c", tool: "t", arguments: &raw(r#"{"a": 1}"#), reply_to: "k", within_ms: 7 };
        let expected = ToolCall {
            call: "c".into(),
            tool: "t".into(),
            arguments: JsonText::new(r#"{"a": 1}"#.into()).unwrap(),
            reply_to: "k".into(),
            within_ms: 7,
        };
        assert_eq!(read(tool_call(&work, call).unwrap()), event(1, EventBody::ToolCall(expected)));
        let (next, arguments) = (NonZeroU32::new(3).unwrap(), raw(r#"{"a": 1}"#));
        let asked = Approval {
            call: "c",
            tool: "t",
            arguments: &arguments,
            pattern: "t/**",
            next,
            reply_to: "k",
            within_ms: 7,
        };
        let expected = thermae_schemas::Approval {
            call: "c".into(),
            tool: "t".into(),
            arguments: JsonText::new(r#"{"a": 1}"#.into()).unwrap(),
            pattern: "t/**".into(),
            next,
            reply_to: "k".into(),
            within_ms: 7,
        };
        assert_eq!(read(approval(&work, asked).unwrap()), event(1, EventBody::Approval(expected)));
        let mut outcome = Outcome::new(Status::Succeeded);
        outcome.stdout = "out".into();
        let told =
            Told { outcome: outcome.clone(), value: Some(shown.clone()), displays: vec![shown, bundle::note("n")] };
        let note: thermae_schemas::MimeBundle = [("text/plain".to_owned(), json!("<n>").into())].into();
        (outcome.value, outcome.displays) = (Some(tree.clone()), vec![tree, note]);
        assert_eq!(read(result(&work, 2, &told).unwrap()), event(2, EventBody::Result(outcome)));
    }

    #[test]
    fn calls_that_wait_for_approval_are_apart_from_those_that_wait_for_answers() {
        let (pending, within) = (crate::pending::Pending::default(), std::time::Duration::from_secs(9));
        let event = Bytes::from_static(br#"{"arguments": {"n": 1.50}}"#);
        let next = NonZeroU32::new(2).unwrap();
        let _call = pending.add("a", "t", &event, within, WaitsFor::Answer);
        let _asked = pending.add("b", "u", &event, within, WaitsFor::Approval { pattern: "u".into(), next });
        let info = RunInfo::new(work().key.job.clone(), thermae_schemas::RunState::Waiting);
        let text = run("q", 1, &info, &pending.list(), "acme.w").unwrap();
        assert_eq!(text.windows(4).filter(|part| *part == b"1.50").count(), 2, "arguments keep every digit");
        let EventBody::Run(info) = serde_json::from_slice::<Read>(&text).unwrap().body else { panic!("{text:?}") };
        let ([call], [asked]) = (&info.calls[..], &info.approvals[..]) else { panic!("{info:?}") };
        assert_eq!((call.call.as_str(), call.reply_to.as_str()), ("a", "acme.w"));
        assert_eq!((asked.call.as_str(), asked.pattern.as_str(), asked.next), ("b", "u", next));
        assert_eq!((asked.reply_to.as_str(), asked.within_ms), ("acme.w", 9000));
    }
}
