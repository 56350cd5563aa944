//! Frames for tools: what a run's code may call, its calls, and their answers.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// One tool that the code may call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Tool {
    /// Name as the client knows it.
    pub name: String,
    /// Name as the code sees it: a valid identifier.
    pub alias: String,
    /// Shown as the function's doc string.
    #[serde(default)]
    pub description: String,
    /// The parameters, in the order of positional calls.
    #[serde(default)]
    pub parameters: Vec<Parameter>,
    /// Whether the code may give arguments that are none of `parameters`, by name.
    #[serde(default)]
    pub others: bool,
    /// JSON Schema of the arguments, for the tool's documentation in the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Box<RawValue>>,
    /// JSON Schema of the result, for the tool's documentation in the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Box<RawValue>>,
    /// Give the code the result as a string (JSON text, unless it is a string already) instead of the parsed value.
    #[serde(default)]
    pub raw: bool,
    /// Whether the code does not see it among its tools: its calls are refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
}

/// A parameter of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// Name of the parameter, and of its value in the arguments of a call.
    pub name: String,
    /// How the code can give it.
    #[serde(default, skip_serializing_if = "ParameterKind::is_default")]
    pub kind: ParameterKind,
    /// Whether every call must give it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
}

/// How the code can give an argument of a tool. The kinds have the order of parameters of these kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParameterKind {
    /// By its place.
    PositionalOnly,
    /// By its place or its name.
    #[default]
    PositionalOrKeyword,
    /// By its name.
    KeywordOnly,
}

impl ParameterKind {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The code calls a tool.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolCall {
    /// Number of the call in its run, given by the runner, from 1.
    pub call: u32,
    /// The tool's name (not its alias).
    pub name: String,
    /// Arguments: a JSON object.
    pub arguments: Box<RawValue>,
}

/// While this many bytes of a run's [`ToolResult`]s or more have no credit yet, the worker sends no further one. So what
/// waits for code that does not read is less than this and one answer. The runner gives credit when the code has taken
/// the answers, at the latest for half of the window.
pub const ANSWER_WINDOW: u64 = 1 << 20;

/// The answer to a [`ToolCall`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolResult {
    /// Number of the call.
    pub call: u32,
    /// The result (any JSON), or why the tool failed.
    pub result: Result<Box<RawValue>, ToolFailure>,
}

/// Why a tool failed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolFailure {
    /// Name of the error's type, such as `ValueError`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// What happened. It is the text of the error in the code.
    pub message: String,
    /// More about the error: any JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
}

impl<T: Into<String>> From<T> for ToolFailure {
    fn from(message: T) -> Self {
        Self { kind: None, message: message.into(), data: None }
    }
}
