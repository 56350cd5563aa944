//! Messages to clients that contain JSON of a job. This JSON is written as it came. The messages can be read as
//! [`thermae_schemas::Event`].

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thermae_schemas::{OLDEST, Outcome, RunInfo, RunQuery};

use crate::bundle::Bundle;
use crate::pending::PendingCall;
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
    },
}

/// A tool call that waits, with the fields of [`thermae_schemas::PendingCall`].
#[derive(Serialize)]
struct Waiting<'a> {
    call: &'a str,
    tool: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    omitted: bool,
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
        Self {
            call: &call.call,
            tool: &call.tool,
            arguments: event.as_ref().map(|event| event.arguments),
            omitted: event.is_none(),
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

/// Writes the event `display`.
pub(crate) fn display(work: &Work, data: &RawValue) -> serde_json::Result<Bytes> {
    write(work, OLDEST, work.attempt, Body::Display { data })
}

/// Writes the event `tool_call`, in the job's version of the protocol, in which the client may answer.
pub(crate) fn tool_call(work: &Work, call: Call<'_>) -> serde_json::Result<Bytes> {
    write(work, work.job.protocol, work.attempt, Body::ToolCall(call))
}

/// Writes the event `run`, the answer to a question with this id. `info` has everything but the calls, whose answers
/// go to `reply_to`.
pub(crate) fn run(
    question: &str,
    attempt: u32,
    info: &RunInfo,
    calls: &[PendingCall],
    reply_to: &str,
) -> serde_json::Result<Bytes> {
    let calls: Vec<_> = calls.iter().map(|call| Waiting::new(call, reply_to)).collect();
    let event = Event { protocol: RunQuery::PROTOCOL, job: question, attempt, body: Body::Run { info, calls: &calls } };
    serde_json::to_vec(&event).map(Bytes::from)
}

/// Writes the event `result`.
pub(crate) fn result(work: &Work, attempt: u32, told: &Told) -> serde_json::Result<Bytes> {
    let Told { outcome, value, displays } = told;
    write(work, OLDEST, attempt, Body::Result { outcome, value, displays })
}

fn write(work: &Work, protocol: u32, attempt: u32, body: Body<'_>) -> serde_json::Result<Bytes> {
    let event = Event { protocol, job: work.key.job.as_str(), attempt, body };
    serde_json::to_vec(&event).map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use thermae_schemas::{Event as Read, EventBody, Status, ToolCall};

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
            arguments: json!({"a": 1}),
            reply_to: "k".into(),
            within_ms: 7,
        };
        assert_eq!(read(tool_call(&work, call).unwrap()), event(1, EventBody::ToolCall(expected)));
        let mut outcome = Outcome::new(Status::Succeeded);
        outcome.stdout = "out".into();
        let told =
            Told { outcome: outcome.clone(), value: Some(shown.clone()), displays: vec![shown, bundle::note("n")] };
        let note: thermae_schemas::MimeBundle = [("text/plain".to_owned(), json!("<n>"))].into();
        (outcome.value, outcome.displays) = (Some(tree.clone()), vec![tree, note]);
        assert_eq!(read(result(&work, 2, &told).unwrap()), event(2, EventBody::Result(outcome)));
    }
}
