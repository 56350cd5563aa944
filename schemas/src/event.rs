//! What a client hears about its job. Unknown fields and unknown events are tolerated.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{JobId, MimeBundle, Outcome, SessionInfo, ToolCall, WorkerId};

/// One message about a job, to its reply key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Version of the wire.
    #[serde(default = "crate::this_protocol")]
    pub protocol: u32,
    /// Which job.
    pub job: JobId,
    /// Which attempt at it; 0 where none was made.
    #[serde(default)]
    pub attempt: u32,
    /// What happened.
    #[serde(flatten)]
    pub body: EventBody,
}

impl Event {
    /// An event of this version.
    pub fn new(job: JobId, attempt: u32, body: EventBody) -> Self {
        Self { protocol: crate::PROTOCOL, job, attempt, body }
    }
}

/// What happened to a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "results are the commonest of them")]
pub enum EventBody {
    /// The scheduler took it. Streamed on wish.
    Accepted {},
    /// The code starts. Streamed on wish.
    Started {
        /// Where.
        worker: WorkerId,
    },
    /// Standard output. Streamed on wish.
    Stdout {
        /// Counts the job's stdout and stderr events from 0, so that a gap or a repeat shows.
        seq: u64,
        /// Text; bytes that are not UTF-8 are replaced here and exact in the result.
        text: String,
    },
    /// Standard error. Streamed on wish.
    Stderr {
        /// As in `stdout`.
        seq: u64,
        /// As in `stdout`.
        text: String,
    },
    /// The code displayed something. Streamed on wish; it stands in the result too.
    Display {
        /// The thing, by MIME type.
        data: MimeBundle,
    },
    /// The code calls a tool: answer it.
    ToolCall(ToolCall),
    /// The end. May come twice, then byte for byte the same.
    Result(Outcome),
    /// The answer to a [`crate::Query`]; `job` is the question's id.
    Sessions {
        /// The tenant's sessions that live, by name.
        sessions: Vec<SessionInfo>,
    },
    /// An event newer than this reader.
    #[serde(other)]
    Unknown,
}

/// Events that come only when the job asks for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// `accepted` and `started`.
    Lifecycle,
    /// `stdout` and `stderr`.
    Output,
    /// `display`.
    Display,
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
}
