//! Requests to live sessions: commands, and operations on files. They run beside the session's programs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::optional::{integer, integer_or, nullable, or_default, some_integer};
use crate::{Content, ErrorInfo, FileOp, JobId, PathText, SessionName, env_trouble};

/// A request to a live session. The worker that holds the session answers with the events `opened`, `output`, `credit`
/// and `done`. A request with the id of an earlier one of the session is not carried out again: it gets the events that
/// still come, or the same `done`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = nullable)]
pub struct Request {
    /// Version of the protocol; 1 if the field is missing.
    #[serde(default = "crate::first_protocol", deserialize_with = "integer_or::<1, _, _>")]
    pub protocol: u32,
    /// Id of the request. Its events carry it as `job`.
    pub id: JobId,
    /// Name of the session.
    pub session: SessionName,
    /// What to do.
    #[serde(flatten)]
    pub work: RequestWork,
    /// How long it may take, in milliseconds; at most as long as any job of the pool may. By default, a command may
    /// take as long as a job that asks for no limit, and an operation on files as long as any job may.
    #[serde(default, deserialize_with = "some_integer", skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How many bytes of output the worker may send before the client allows it more, and how many bytes of input the
    /// client may send before the worker does: 1 to 16 MiB.
    #[serde(default = "default_window", deserialize_with = "window")]
    #[schemars(range(min = 1, max = 16_777_216))]
    pub window: u32,
    /// The beginning of the input: standard input of a command, or the content of a file to write.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Content::is_empty")]
    pub input: Content,
    /// Whether more input follows, in messages of its own.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub more_input: bool,
}

/// What a request does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "RequestWork", rename_all = "snake_case")]
pub enum RequestWork {
    /// Runs a command.
    Exec(Exec),
    /// Works on files. The result is `value` in the event `done`.
    File(FileOp),
    /// Does nothing, so that the session counts as used.
    Keepalive {},
}

/// A command. Exactly one of `argv` and `shell`. It ends when its own process does. Processes that it leaves live on
/// until the session ends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Exec", deny_unknown_fields, expecting = "an object with `argv` or `shell`")]
#[schemars(extend("oneOf" = [
    { "required": ["argv"], "properties": { "argv": { "type": "array" } } },
    { "required": ["shell"], "properties": { "shell": { "type": "string" } } },
]))]
#[schemars(transform = nullable)]
pub struct Exec {
    /// A program and its arguments. A program without a slash is looked up in `PATH`.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
    /// A command line for `bash`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// Working directory: absolute, or relative to `/workspace`, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathText>,
    /// Environment variables added to the sandbox's own.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

impl Request {
    /// The default of [`Request::window`], in bytes.
    pub const WINDOW: u32 = 1 << 20;

    /// The largest [`Request::window`], in bytes.
    pub const MAX_WINDOW: u32 = 16 << 20;

    /// Most bytes of content in one message. More goes in several.
    pub const CHUNK: usize = 256 << 10;

    /// A request of this id, without input.
    pub fn new(id: JobId, session: SessionName, work: RequestWork) -> Self {
        Self {
            protocol: crate::OLDEST,
            id,
            session,
            work,
            timeout_ms: None,
            window: Self::WINDOW,
            input: Content::default(),
            more_input: false,
        }
    }

    /// Says what is wrong with the request, in words for the client. `None` if it can be carried out.
    pub fn trouble(&self) -> Option<String> {
        if let RequestWork::Exec(exec) = &self.work
            && exec.argv.is_empty() == exec.shell.is_none()
        {
            return Some("exec needs exactly one of argv and shell".to_owned());
        }
        if let RequestWork::Exec(exec) = &self.work
            && let Some(why) = env_trouble(&exec.env)
        {
            return Some(why);
        }
        if !(1..=Self::MAX_WINDOW).contains(&self.window) {
            return Some(format!("window must be 1 to {}", Self::MAX_WINDOW));
        }
        if self.input.len() > Self::CHUNK {
            return Some(format!("input has more than {} bytes; send the rest in messages of its own", Self::CHUNK));
        }
        (self.input.len() > self.window as usize).then(|| "input is larger than window".to_owned())
    }
}

fn default_window() -> u32 {
    Request::WINDOW
}

fn window<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    Ok(some_integer(from)?.unwrap_or(Request::WINDOW))
}

/// A message of a client about a request that it has sent, to the `reply_to` of the event `opened`, with the header
/// `x-request`. Offsets and totals
/// count from the beginning of the request, so that a repeated message changes nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = nullable)]
pub struct RequestInput {
    /// Version of the protocol; 1 if the field is missing.
    #[serde(default = "crate::first_protocol", deserialize_with = "integer_or::<1, _, _>")]
    pub protocol: u32,
    /// Id of the request.
    pub request: JobId,
    /// What the client says.
    #[serde(flatten)]
    pub say: Say,
}

impl RequestInput {
    /// A message about this request.
    pub fn new(request: JobId, say: Say) -> Self {
        Self { protocol: crate::OLDEST, request, say }
    }
}

/// What a client says about a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Say", rename_all = "snake_case")]
#[schemars(transform = nullable)]
pub enum Say {
    /// More input.
    Input {
        /// How many bytes of input came before.
        #[serde(deserialize_with = "integer")]
        offset: u64,
        /// The bytes; at most 256 KiB.
        #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Content::is_empty")]
        data: Content,
        /// Whether this is the end of the input.
        #[serde(default, deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
        end: bool,
    },
    /// How many bytes of output the worker may have sent in all.
    Credit(#[serde(deserialize_with = "integer")] u64),
    /// Sends this signal to the command's process group.
    Signal(#[serde(deserialize_with = "integer")] i32),
    /// Kills the command's process group, or ends the file operation.
    Cancel {},
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestDone {
    /// How it ended.
    #[serde(flatten)]
    pub end: RequestEnd,
    /// How many bytes of output were sent in all.
    #[serde(default)]
    pub output: u64,
    /// Result of a file operation that has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// How long it took on the worker, in milliseconds.
    #[serde(default)]
    pub wall_ms: u64,
}

/// The ways in which a request ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum RequestEnd {
    /// The command exited. A file operation that succeeded has the status 0.
    Exited {
        /// Exit status.
        code: i32,
    },
    /// A signal ended the command.
    Signaled {
        /// Number of the signal.
        signal: i32,
    },
    /// It took too long, and was killed.
    TimedOut {},
    /// The client cancelled it, and it was killed.
    Cancelled {},
    /// The session's memory ran out, and the command was killed.
    OutOfMemory {},
    /// The command could not be started, or the file operation failed.
    Failed {
        /// Name of the kernel's error, such as `ENOENT`.
        errno: String,
        /// The path in question.
        path: PathText,
        /// What went wrong, in words.
        message: String,
    },
    /// The fleet could not carry it out, or not to its end.
    Error {
        /// Why.
        error: ErrorInfo,
    },
    /// An end that the reader does not know, because a newer release sent it.
    #[serde(other)]
    Unknown,
}

impl RequestDone {
    /// The end of a request that did nothing.
    pub fn bare(end: RequestEnd) -> Self {
        Self { end, output: 0, value: None, wall_ms: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, EventBody, OutputStream};

    #[test]
    fn requests_read_as_documented() {
        let text = r#"{"id": "r", "session": "s", "exec": {"shell": "cat"}, "input": "aGk="}"#;
        let request: Request = serde_json::from_str(text).unwrap();
        assert_eq!((&request.input[..], request.more_input, request.trouble()), (&b"hi"[..], false, None));
        assert_eq!(serde_json::from_slice::<Request>(&serde_json::to_vec(&request).unwrap()).unwrap(), request);
        for (bad, why) in [
            (r#""exec": {}"#, "exactly one"),
            (r#""exec": {"argv": ["a"], "shell": "b"}"#, "exactly one"),
            (r#""exec": {"argv": ["a"], "env": {"A=B": ""}}"#, "equals sign"),
            (r#""keepalive": {}, "window": 0"#, "window"),
            (r#""keepalive": {}, "window": 1, "input": "aGk=""#, "input is larger"),
        ] {
            let text = format!(r#"{{"id": "r", "session": "s", {bad}}}"#);
            let trouble = serde_json::from_str::<Request>(&text).unwrap().trouble();
            assert!(trouble.as_ref().is_some_and(|trouble| trouble.contains(why)), "{bad}: {trouble:?}");
        }
        for bad in [r#""exec": {"argv": ["a"]}, "colour": 1"#, r#""colour": {}"#, r#""keepalive": {}, "input": "?""#] {
            let text = format!(r#"{{"id": "r", "session": "s", {bad}}}"#);
            assert!(serde_json::from_str::<Request>(&text).is_err(), "{bad}");
        }
    }

    #[test]
    fn messages_and_events_read_as_documented() {
        let say = |text: &str| serde_json::from_str::<RequestInput>(text).unwrap().say;
        let head = r#"{"request": "r", "#;
        assert_eq!(say(&format!("{head}\"credit\": 7}}")), Say::Credit(7));
        assert_eq!(say(&format!("{head}\"cancel\": {{}}}}")), Say::Cancel {});
        let input = Say::Input { offset: 3, data: b"hi".to_vec().into(), end: true };
        assert_eq!(say(&format!(r#"{head}"input": {{"offset": 3, "data": "aGk=", "end": true}}}}"#)), input);
        let event: Event = serde_json::from_str(
            r#"{"protocol": 1, "job": "r", "event": "output", "stream": "stderr", "offset": 0, "data": "/w=="}"#,
        )
        .unwrap();
        let output = EventBody::Output { stream: OutputStream::Stderr, offset: 0, data: b"\xff".to_vec().into() };
        assert_eq!(event.body, output);
        let event: Event =
            serde_json::from_str(r#"{"job": "r", "event": "done", "how": "exited", "code": 3, "value": [1]}"#).unwrap();
        let EventBody::Done(done) = event.body else { panic!("{event:?}") };
        assert_eq!((done.end, done.value), (RequestEnd::Exited { code: 3 }, Some(serde_json::json!([1]))));
        let future = r#"{"job": "r", "event": "done", "how": "evaporated"}"#;
        let event: Event = serde_json::from_str(future).unwrap();
        assert_eq!(event.body, EventBody::Done(RequestDone::bare(RequestEnd::Unknown)));
    }
}
