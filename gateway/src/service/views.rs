//! What callers see, and what they send, as JSON.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU32;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use thermae_schemas::{JobId, JsonText, Outcome, SessionInfo, Status, ToolFailure};

use crate::problem::Problem;

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RunState {
    /// It was submitted, and has not ended.
    Underway,
    /// It has ended: `outcome` says how.
    Ended,
    /// The gateway follows the run no longer: it lost the fleet, or another client took the run over. `error` says why.
    Unknown,
}

/// A run that the gateway follows: it was submitted here, or taken over.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunView {
    /// Id of the run, which is the id of its job.
    pub(crate) id: JobId,
    /// Where it is.
    pub(crate) state: RunState,
    /// The tool calls that wait for an answer, the oldest first.
    pub(crate) calls: Vec<CallView>,
    /// The tool calls that wait for approval, the oldest first. None of them is among `calls`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) approvals: Vec<ApprovalView>,
    /// Number of the run's last event.
    pub(crate) last_event: u64,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Outcome")]
    pub(crate) outcome: Option<OutcomeText>,
    /// Why no outcome will come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LostView")]
    pub(crate) error: Option<LostView>,
}

impl RunView {
    /// What is left for callers who may not read runs.
    pub(crate) fn state_alone(self) -> Self {
        Self { calls: Vec::new(), approvals: Vec::new(), last_event: 0, outcome: None, error: None, ..self }
    }
}

/// An outcome, as the fleet wrote it in the event `result`. It is not read: as a tree in memory, it could take a hundred
/// times its bytes, and its numbers stay as they are.
#[derive(Debug, Clone)]
pub(crate) struct OutcomeText(pub(crate) Bytes);

impl Serialize for OutcomeText {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Fields(fields) = serde_json::from_slice(&self.0).map_err(serde::ser::Error::custom)?;
        // The others are about the message.
        let of_event = |name: &str| matches!(name, "protocol" | "job" | "attempt" | "event");
        to.collect_map(fields.into_iter().filter(|(name, _)| !of_event(name)))
    }
}

/// The fields of an object, in their order.
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        from.deserialize_map(Read)
    }
}

/// A run in short.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct RunSummary {
    /// Id of the run, which is the id of its job.
    pub(crate) id: JobId,
    /// Where it is.
    pub(crate) state: RunState,
    /// Number of tool calls that wait for an answer.
    pub(crate) waiting_calls: usize,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Status")]
    pub(crate) status: Option<Status>,
}

/// A page of runs.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct RunsView {
    /// The runs, the newest first.
    pub(crate) runs: Vec<RunSummary>,
    /// `cursor` of the next page; missing on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(crate) next: Option<String>,
}

/// Why a run's outcome can't be told.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct LostView {
    /// Stable code.
    pub(crate) code: String,
    /// What happened.
    pub(crate) message: String,
}

impl LostView {
    /// A run that ended too long ago.
    pub(crate) fn forgotten() -> Self {
        let message = "the gateway does not hold the run any more".to_owned();
        Self { code: "unknown_run".to_owned(), message }
    }
}

impl From<Problem> for LostView {
    fn from(problem: Problem) -> Self {
        Self { code: problem.code.to_owned(), message: problem.detail }
    }
}

/// A tool call that waits for an answer.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CallView {
    /// Id of the call.
    pub(crate) call: String,
    /// Name of the tool, as the job declares it.
    pub(crate) tool: String,
    /// Arguments of the call: a JSON object.
    pub(crate) arguments: JsonText,
    /// How long the code waits for the answer, in milliseconds.
    pub(crate) within_ms: u64,
    /// How long it has waited, in milliseconds.
    pub(crate) waited_ms: u64,
    /// How long it still waits, in milliseconds.
    pub(crate) left_ms: u64,
}

/// A tool call that waits for approval.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ApprovalView {
    /// Id of the call, for a decision.
    pub(crate) call: String,
    /// Name of the tool, as the job declares it.
    pub(crate) tool: String,
    /// Arguments of the call: a JSON object. Missing if they were too large for the fleet to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "JsonText")]
    pub(crate) arguments: Option<JsonText>,
    /// Pattern of the capability that takes the call.
    pub(crate) pattern: String,
    /// Most calls that a yes can count for.
    pub(crate) next: NonZeroU32,
    /// How long it still waits, in milliseconds.
    pub(crate) left_ms: u64,
}

/// The answer to a tool call: either `ok` or `error`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(dead_code, reason = "only its schema is used: answers are read as the SDK's are, with every digit")]
pub(crate) enum AnswerRequest {
    /// The tool's result: any JSON.
    Ok(JsonText),
    /// Why the tool failed. The code gets it as a `ToolError`.
    Error(ToolFailure),
}

/// The live sessions of the tenant.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct SessionsView {
    /// The sessions, as their workers reported them last, sorted by name.
    pub(crate) sessions: Vec<SessionInfo>,
}
