//! Events: the messages that the fleet sends to clients. A reader ignores unknown fields, and reads an unknown event as
//! [`EventBody::Unknown`].

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::{
    Approval, AuditLine, Content, Decided, JobId, MimeBundle, Outcome, RequestDone, RunInfo, SessionInfo, ToolCall,
    WorkerId,
};

/// A message from the fleet to a client, sent to the reply key of the client's job or question. Ignore fields and
/// events that you do not know.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Event {
    /// Version of the protocol; 1 if the field is missing.
    #[serde(default = "crate::first_protocol")]
    pub protocol: u32,
    /// Id of the job, of the question (in the events `sessions` and `run`), of the decision (in the event `decided`
    /// that answers it), or of the request to a session (in the events `opened`, `output`, `credit` and `done`).
    pub job: JobId,
    /// Number of the attempt, from 1; 0 if there was no attempt.
    #[serde(default)]
    pub attempt: u32,
    /// The kind of the event (`event`) and its own fields.
    #[serde(flatten)]
    pub body: EventBody,
}

impl Event {
    /// An event that any reader knows.
    pub fn new(job: JobId, attempt: u32, body: EventBody) -> Self {
        Self { protocol: crate::OLDEST, job, attempt, body }
    }
}

/// Reads from a text only, and each kind of event from the whole text. Serde would read the fields of `body` into a
/// buffer first, which can't hold texts of JSON.
impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::read(<&RawValue>::deserialize(from)?.get()).map_err(D::Error::custom)
    }
}

impl Event {
    fn read(text: &str) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Head {
            #[serde(default = "crate::first_protocol")]
            protocol: u32,
            job: JobId,
            #[serde(default)]
            attempt: u32,
            event: String,
        }
        #[derive(Deserialize)]
        struct Display {
            data: MimeBundle,
        }
        let Head { protocol, job, attempt, event } = serde_json::from_str(text)?;
        let body = match event.as_str() {
            "display" => {
                let Display { data } = serde_json::from_str(text)?;
                EventBody::Display { data }
            }
            "tool_call" => EventBody::ToolCall(serde_json::from_str(text)?),
            "audit" => EventBody::Audit(serde_json::from_str(text)?),
            "approval" => EventBody::Approval(serde_json::from_str(text)?),
            "result" => EventBody::Result(serde_json::from_str(text)?),
            "run" => EventBody::Run(serde_json::from_str(text)?),
            // The others have no texts of JSON.
            _ => serde_json::from_str(text)?,
        };
        Ok(Self { protocol, job, attempt, body })
    }
}

/// The kinds of events, and the fields of each. They are read as parts of an [`Event`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "results are the commonest of them")]
pub enum EventBody {
    /// The scheduler accepted the job. Sent only if the job's `stream` has `lifecycle`.
    Accepted {},
    /// The code starts. Sent only if the job's `stream` has `lifecycle`.
    Started {
        /// Id of the worker that runs the job.
        worker: WorkerId,
    },
    /// Standard output of the code. Sent only if the job's `stream` has `output`.
    Stdout {
        /// Number of this event among the attempt's `stdout` and `stderr` events, which are counted together from 0, so
        /// that you notice a gap or a repeat.
        seq: u64,
        /// The output as text. Bytes that are not UTF-8 are replaced here; the result has the exact bytes.
        text: String,
    },
    /// Standard error of the code. Sent only if the job's `stream` has `output`.
    Stderr {
        /// As in `stdout`.
        seq: u64,
        /// As in `stdout`.
        text: String,
    },
    /// The code displayed something. Sent only if the job's `stream` has `display`. The result contains it, too.
    Display {
        /// What was displayed, in one or more forms by MIME type.
        data: MimeBundle,
    },
    /// The code calls a tool of the client. The client must answer the call.
    ToolCall(ToolCall),
    /// What the worker's audit log says about a tool call of the code. Sent only if the job's `stream` has `audit`, or
    /// if the fleet's option `audit.events` is set.
    Audit(AuditLine),
    /// The code calls a tool, and the call waits for approval. It needs a decision, which need not come from this client.
    Approval(Approval),
    /// The answer to a decision; `job` is then the decision's id. To the client that follows the run (`job` is then the
    /// job's id): a call that waited for approval does not wait any more.
    Decided(Decided),
    /// The job has ended, with this outcome. The event can arrive twice; both copies are then the same, byte for byte.
    Result(Outcome),
    /// The answer to a question about sessions.
    Sessions {
        /// The live sessions of the tenant, sorted by name.
        sessions: Vec<SessionInfo>,
    },
    /// The answer to a question about a run.
    Run(RunInfo),
    /// Answers to the run's calls lie on its worker's disk, because the run does not read them. The client should keep
    /// further answers of the run back.
    Hold {
        /// For how long, in milliseconds, unless the event comes again. 0: from now on, answers may be sent.
        for_ms: u64,
    },
    /// Another client has taken the job's run over. This client gets nothing more of it.
    Superseded {},
    /// A worker carries out the request. Sent again if the request is.
    Opened {
        /// Routing key of further messages about the request, on the exchange `calls`.
        reply_to: String,
    },
    /// Output of a request: of its command, or the content of a file that it reads.
    Output {
        /// Which of the command's streams it is from. The content of a file is `stdout`.
        stream: OutputStream,
        /// How many bytes of output of both streams came before, so that you notice a gap or a repeat.
        offset: u64,
        /// The bytes.
        data: Content,
    },
    /// The client may send more input of a request.
    Credit {
        /// How many bytes of input the client may have sent in all.
        input: u64,
    },
    /// The request has ended. The event can arrive twice.
    Done(RequestDone),
    /// An event that the reader does not know, because a newer release sent it.
    #[serde(other)]
    Unknown,
}

/// Kinds of events that are sent only if the job asks for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// The events `accepted` and `started`.
    Lifecycle,
    /// The events `stdout` and `stderr`.
    Output,
    /// The event `display`.
    Display,
    /// The events `audit`.
    Audit,
}

/// The output streams of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_client_follows_a_newer_fleet() {
        let future = r#"{"protocol": 1, "job": "a", "event": "hibernated", "for_ms": 3}"#;
        assert_eq!(serde_json::from_str::<Event>(future).unwrap().body, EventBody::Unknown);
        let extra = r#"{"protocol": 1, "job": "a", "event": "stdout", "seq": 0, "text": "x", "colour": "red"}"#;
        assert!(matches!(serde_json::from_str::<Event>(extra).unwrap().body, EventBody::Stdout { .. }));
    }

    #[test]
    fn json_in_an_event_stays_as_it_was_written() {
        let json = r#"{"z": 18446744073709551617, "a": [1.50, -0, 1E+2, 0.123456789012345678901234567890], "b":  {}}"#;
        let call = format!(r#""call":"c","tool":"t","arguments":{json}"#);
        let asked = format!(r#"{call},"pattern":"t","next":1,"reply_to":"k","within_ms":7"#);
        let pending = r#""within_ms":7,"waited_ms":0,"left_ms":7"#;
        for body in [
            format!(r#""event":"display","data":{{"application/json":{json}}}"#),
            format!(r#""event":"tool_call",{call},"reply_to":"k","within_ms":7"#),
            format!(r#""event":"approval",{asked}"#),
            format!(r#""event":"run","run":"j","state":"waiting","calls":[{{{call},"reply_to":"k",{pending}}}]"#),
            format!(
                r#""event":"run","run":"j","state":"waiting","approvals":[{{{call},"pattern":"t","next":1,"reply_to":"k",{pending}}}]"#
            ),
            format!(r#""event":"audit","what":"call","at":"now","worker":"w","call":1,"arguments":{json}"#),
        ] {
            let text = format!(r#"{{"protocol":1,"job":"a","attempt":2,{body}}}"#);
            let event: Event = serde_json::from_str(&text).unwrap();
            assert_eq!(serde_json::to_string(&event).unwrap(), text);
        }
        let result = format!(
            r#"{{"job":"a","event":"result","status":"succeeded","value":{{"x/y":{json}}},"displays":[{{"x/y":{json}}}]}}"#
        );
        let EventBody::Result(outcome) = serde_json::from_str::<Event>(&result).unwrap().body else { panic!() };
        for bundle in outcome.displays.iter().chain(&outcome.value) {
            assert_eq!(bundle["x/y"].raw().get(), json);
        }
    }
}
