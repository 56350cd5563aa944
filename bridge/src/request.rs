//! The frames that an SDK sends.

use serde::Deserialize;
use serde_json::{Map, Value};
use thermae_schemas::{JobId, RunQuery, read_object};

use crate::Refusal;

/// The header of a frame.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Request {
    /// The first frame.
    Hello { versions: Vec<u32> },
    /// Opens a fleet. The opener reads the other fields.
    Open {
        id: u64,
        #[serde(flatten)]
        ask: Map<String, Value>,
    },
    /// Runs the job in the payload.
    Run {
        id: u64,
        window: u64,
        /// Whether the job goes on when the connection ends.
        #[serde(default)]
        detached: bool,
        /// Whether more of the job comes as input of the request.
        #[serde(default)]
        more: bool,
    },
    /// Takes a run over.
    Attach {
        id: u64,
        window: u64,
        #[serde(flatten)]
        run: Named,
    },
    /// Asks for a run.
    RunInfo {
        id: u64,
        #[serde(flatten)]
        run: Named,
    },
    /// Cancels a run that this connection need not follow.
    CancelRun { id: u64, job: JobId },
    /// Answers a tool call of a run that this connection need not follow.
    Answer { id: u64, call: String, reply_to: String },
    /// Decides about a call that waits for approval, of a run that this connection need not follow.
    Decide { id: u64, job: JobId, call: String, reply_to: Option<String> },
    /// Forgets a run, which goes on.
    Detach { id: u64 },
    /// Sends the request to a session in the payload.
    #[serde(rename = "request")]
    InSession { id: u64, window: u32 },
    /// More input of a request to a session.
    Input {
        id: u64,
        #[serde(default)]
        end: bool,
    },
    /// A signal for the command of a request to a session.
    Signal { id: u64, signal: i32 },
    /// Answers a tool call of a run.
    ToolResult { id: u64, call: String },
    /// Cancels a request.
    Cancel { id: u64 },
    /// Lets the bridge send more bytes for a request.
    Credit { id: u64, bytes: u64 },
    /// Fetches an artifact.
    Artifact {
        id: u64,
        #[serde(rename = "ref")]
        reference: String,
        window: u64,
    },
    /// Asks for the live sessions.
    Sessions { id: u64 },
    /// Asks whether the tools in the payload can be called.
    CheckTools { id: u64 },
    /// Ends the connection in order.
    Close {},
}

const KINDS: [&str; 19] = [
    "hello",
    "open",
    "run",
    "attach",
    "run_info",
    "cancel_run",
    "answer",
    "decide",
    "detach",
    "request",
    "input",
    "signal",
    "tool_result",
    "cancel",
    "credit",
    "artifact",
    "sessions",
    "check_tools",
    "close",
];

/// A run, and how much of its output the SDK has.
#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct Named {
    job: JobId,
    #[serde(default)]
    stdout_from: u64,
    #[serde(default)]
    stderr_from: u64,
}

impl From<Named> for RunQuery {
    fn from(Named { job, stdout_from, stderr_from }: Named) -> Self {
        Self { stdout_from, stderr_from, ..Self::new(job) }
    }
}

/// A header that is no request.
#[derive(Debug, PartialEq)]
pub(crate) enum Unread {
    /// The connection can't go on.
    Bad(Refusal),
    /// Only this request fails.
    Refused(u64, Refusal),
    /// A newer SDK sent something that needs no answer.
    Unknown,
}

/// Reads a header.
pub(crate) fn read(header: &[u8]) -> Result<Request, Unread> {
    #[derive(Deserialize)]
    struct Head {
        #[serde(rename = "type")]
        kind: String,
        id: Option<u64>,
    }
    read_object(header).map_err(|error: serde_json::Error| {
        let bad = |error: serde_json::Error| Refusal::new("bad_frame", format!("a header can't be read: {error}"));
        let head: Head = match read_object(header) {
            Ok(head) => head,
            Err(error) => return Unread::Bad(bad(error)),
        };
        match (KINDS.contains(&head.kind.as_str()), head.id) {
            (true, Some(id)) => Unread::Refused(id, Refusal::new("bad_request", format!("{}: {error}", head.kind))),
            (true, None) => Unread::Bad(bad(error)),
            (false, Some(id)) => {
                let message = format!("this bridge knows no request {:?}", head.kind);
                Unread::Refused(id, Refusal::new("unsupported_request", message).advice("update thermae"))
            }
            (false, None) => Unread::Unknown,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_known_by_its_name() {
        for (header, kind) in [
            (r#"{"type":"hello","versions":[1],"sdk":"python/0.1.0"}"#, "hello"),
            (r#"{"type":"open","id":1,"embedded":{}}"#, "open"),
            (r#"{"type":"run","id":1,"window":1,"new":null}"#, "run"),
            (r#"{"type":"run","id":1,"window":1,"detached":true}"#, "run"),
            (r#"{"type":"run","id":1,"window":1,"more":true}"#, "run"),
            (r#"{"type":"attach","id":1,"window":1,"job":"j"}"#, "attach"),
            (r#"{"type":"attach","id":1,"window":1,"job":"j","stdout_from":7,"stderr_from":8}"#, "attach"),
            (r#"{"type":"run_info","id":1,"job":"j","stdout_from":7}"#, "run_info"),
            (r#"{"type":"cancel_run","id":1,"job":"j"}"#, "cancel_run"),
            (r#"{"type":"answer","id":1,"call":"c","reply_to":"acme.w"}"#, "answer"),
            (r#"{"type":"decide","id":1,"job":"j","call":"c","reply_to":"acme.w"}"#, "decide"),
            (r#"{"type":"decide","id":1,"job":"j","call":"c"}"#, "decide"),
            (r#"{"type":"detach","id":1}"#, "detach"),
            (r#"{"type":"request","id":1,"window":1}"#, "request"),
            (r#"{"type":"input","id":1}"#, "input"),
            (r#"{"type":"signal","id":1,"signal":2}"#, "signal"),
            (r#"{"type":"tool_result","id":1,"call":"c"}"#, "tool_result"),
            (r#"{"type":"cancel","id":1}"#, "cancel"),
            (r#"{"type":"credit","id":1,"bytes":1}"#, "credit"),
            (r#"{"type":"artifact","id":1,"ref":"r","window":1}"#, "artifact"),
            (r#"{"type":"sessions","id":1}"#, "sessions"),
            (r#"{"type":"check_tools","id":1}"#, "check_tools"),
            (r#"{"type":"close"}"#, "close"),
        ] {
            assert!(KINDS.contains(&kind));
            read(header.as_bytes()).unwrap();
        }
        assert_eq!(KINDS.len(), 19);
    }

    #[test]
    fn what_can_not_be_read_fails_alone_if_it_has_an_id() {
        let code = |header: &str| match read(header.as_bytes()).unwrap_err() {
            Unread::Bad(refusal) => (None, refusal.code),
            Unread::Refused(id, refusal) => (Some(id), refusal.code),
            Unread::Unknown => (None, "ignored"),
        };
        assert_eq!(code(r#"{"type":"run","id":7}"#), (Some(7), "bad_request"));
        assert_eq!(code(r#"{"type":"run","id":7,"window":-1}"#), (Some(7), "bad_request"));
        assert_eq!(code(r#"{"type":"attach","id":7,"window":1,"job":"a b"}"#), (Some(7), "bad_request"));
        assert_eq!(code(r#"{"type":"exec","id":7}"#), (Some(7), "unsupported_request"));
        assert_eq!(code(r#"{"type":"noted"}"#), (None, "ignored"));
        for bad in [
            "",
            "[]",
            "{}",
            r#"{"type":"run","window":1}"#,
            r#"{"type":"run","id":-1,"window":1}"#,
            r#"["close"]"#,
            r#"["run", 7]"#,
            "\u{0}",
        ] {
            assert_eq!(code(bad), (None, "bad_frame"), "{bad}");
        }
        let Unread::Refused(_, refusal) = read(br#"{"type":"run","id":7}"#).unwrap_err() else { panic!() };
        assert!(refusal.message.contains("window"), "{}", refusal.message);
    }
}
