//! Tool calls and their answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A call of one of the client's tools by the code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// Id of the call: a random UUID, as 32 hexadecimal digits. The answer carries it.
    pub call: String,
    /// Name of the tool, as the job declares it.
    pub tool: String,
    /// Arguments of the call: a JSON object.
    pub arguments: Value,
    /// Routing key of the answer, on the exchange `calls`.
    pub reply_to: String,
    /// How long the code waits for the answer, in milliseconds.
    pub within_ms: u64,
}

/// The client's answer to a tool call. It has either `ok` or `error`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    /// Version of the protocol; 1 if the field is missing.
    #[serde(default = "crate::first_protocol")]
    pub protocol: u32,
    /// Id of the call, from its field `call`.
    pub call: String,
    /// What the tool answered: `ok` or `error`.
    #[serde(flatten)]
    pub reply: ToolReply,
}

impl ToolResult {
    /// An answer in this release's version of the protocol.
    pub fn new(call: impl Into<String>, reply: ToolReply) -> Self {
        Self { protocol: crate::PROTOCOL, call: call.into(), reply }
    }
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolReply {
    /// The tool's result: any JSON.
    Ok(Value),
    /// Why the tool failed. The code gets it as a `ToolError`.
    Error(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_flat() {
        let answer: ToolResult = serde_json::from_str(r#"{"call": "c", "ok": null}"#).unwrap();
        assert_eq!(answer, ToolResult::new("c", ToolReply::Ok(Value::Null)));
        let refusal = ToolResult::new("c", ToolReply::Error("no".into()));
        assert_eq!(serde_json::to_string(&refusal).unwrap(), r#"{"protocol":1,"call":"c","error":"no"}"#);
    }
}
