//! Messages to clients that contain JSON of a job. This JSON is written as it came. The messages can be read as
//! [`thermae_schemas::Event`].

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use thermae_schemas::{OLDEST, Outcome};

use crate::bundle::Bundle;
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
