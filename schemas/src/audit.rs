//! What an audit log says about tool calls.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{JsonText, WorkerId};

/// What a worker's audit log says about a tool call of a run: that the code makes it, what came of its wait for
/// approval, or how it ended. A call that is refused before it could be made has only an end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditLine {
    /// What happens.
    pub what: AuditWhat,
    /// Time by the worker's clock (RFC 3339, in UTC).
    pub at: String,
    /// Id of the worker.
    pub worker: WorkerId,
    /// Number of the call in the run.
    pub call: u32,
    /// Name of the tool, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub tool: Option<String>,
    /// Id of the capability token of the run, which all tokens share that were made from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub token: Option<String>,
    /// The arguments of a call, without the values that the fleet leaves out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<JsonText>,
    /// Why the arguments are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub arguments_left_out: Option<String>,
    /// Of a decision: id of the call that was decided about, as in the event `approval`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub approval: Option<String>,
    /// Of a decision: the RabbitMQ user that sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub user: Option<String>,
    /// Of a decision: for whom the user decided, as the user says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub by: Option<String>,
    /// Of a decision: how many calls the yes counts for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NonZeroU32")]
    pub calls: Option<NonZeroU32>,
    /// Result of an end: `ok`, the tool's own `error`, or the code of a refusal. Of a decision: `approved`,
    /// `approved_before` (a yes about an earlier call counts), `denied` or `timed_out`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub result: Option<String>,
    /// Text of the refusal, or reason of the decision, unless the fleet leaves values out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub why: Option<String>,
    /// How long the call took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64")]
    pub ms: Option<f64>,
}

/// What an audit log tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuditWhat {
    /// The code makes a call.
    Call,
    /// A call that needs approval has it, or does not get it.
    Decision,
    /// A call has ended.
    End,
    /// Something that the reader does not know, because a newer release sent it.
    #[serde(other)]
    Unknown,
}
