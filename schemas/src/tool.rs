//! Tool calls and their answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The code calls a tool of the client's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// Name of this call: 128 random bits. The answer carries it.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// Its arguments: a JSON object.
    pub arguments: Value,
    /// Where the answer goes: routing key on the exchange `calls`.
    pub reply_to: String,
    /// How long the code waits for it, in milliseconds.
    pub within_ms: u64,
}

/// The client's answer to a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    /// Version of the wire.
    #[serde(default = "crate::first_protocol")]
    pub protocol: u32,
    /// Which call.
    pub call: String,
    /// The answer.
    #[serde(flatten)]
    pub reply: ToolReply,
}

impl ToolResult {
    /// An answer of this version.
    pub fn new(call: impl Into<String>, reply: ToolReply) -> Self {
        Self { protocol: crate::PROTOCOL, call: call.into(), reply }
    }
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolReply {
    /// Any JSON.
    Ok(Value),
    /// Why not; raised in the code as `ToolError`.
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
