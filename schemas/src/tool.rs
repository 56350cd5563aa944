//! Tools, their calls and the answers.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::optional::{integer_or, nullable, or_default, some_integer};
use crate::{JsonText, object};

/// A function of the client that the code can call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "ToolSpec", deny_unknown_fields, expecting = "an object with `name`")]
#[schemars(transform = nullable)]
pub struct ToolSpec {
    /// Name of the tool. In the code, characters that an identifier can't contain become `_`. Two tools of a job must
    /// not have the same name in the code.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
    /// What the tool does, for the model that writes the code.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// JSON Schema of the arguments. A call with other arguments raises an error in the code and is not sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<JsonText>,
    /// The parameters in the order of positional calls, which JSON Schema can't say. Without it, they are the
    /// `properties` of `input_schema` in their order, and those that are not in `required` may be left out. A call that
    /// leaves one out or gives another raises `TypeError` in the code and is not sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Vec<ToolParameter>>,
    /// JSON Schema of the result, for the model that writes the code and for `help` in the code.
    /// Results are not checked against it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<JsonText>,
    /// How long a call of this tool can wait for its answer, in milliseconds: at most as long as
    /// the job's `limits.tool_ms`, which is also the default.
    #[serde(default, deserialize_with = "some_integer", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_ms: Option<u64>,
    /// How many times the job can call the tool. Without it, the tool has no limit of its own.
    #[serde(default, deserialize_with = "some_integer", skip_serializing_if = "Option::is_none")]
    pub max_calls: Option<u32>,
    /// Whether the code gets the tool's results as text: strings unchanged, and everything else as JSON.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub raw: bool,
}

impl ToolSpec {
    /// A tool that has only a name. All other fields have their defaults.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            input_schema: None,
            parameters: None,
            output_schema: None,
            timeout_ms: None,
            max_calls: None,
            raw: false,
        }
    }
}

/// A parameter of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "ToolParameter", deny_unknown_fields, expecting = "an object with `name`")]
#[schemars(transform = nullable)]
pub struct ToolParameter {
    /// Name of the parameter, and of its value in the arguments of a call.
    pub name: String,
    /// How the code can give it. Each kind stands after those that are named before it here.
    #[serde(default, deserialize_with = "or_default")]
    pub kind: ParameterKind,
    /// Whether every call must give it.
    #[serde(default, deserialize_with = "or_default")]
    pub required: bool,
}

/// How the code can give an argument of a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
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

/// A call of one of the client's tools by the code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// Id of the call: a random UUID, as 32 hexadecimal digits. The answer carries it.
    pub call: String,
    /// Name of the tool, as the job declares it.
    pub tool: String,
    /// Arguments of the call: a JSON object.
    pub arguments: JsonText,
    /// Routing key of the answer, on the exchange `calls`.
    pub reply_to: String,
    /// How long the code waits for the answer, in milliseconds.
    pub within_ms: u64,
}

/// The client's answer to a tool call. It has either `ok` or `error`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(transform = nullable)]
pub struct ToolResult {
    /// Version of the protocol; 1 if the field is missing.
    #[serde(default = "crate::first_protocol", deserialize_with = "integer_or::<1, _, _>")]
    pub protocol: u32,
    /// Id of the call, from its field `call`.
    pub call: String,
    /// What the tool answered: `ok` or `error`.
    #[serde(flatten)]
    pub reply: ToolReply,
}

impl ToolResult {
    /// An answer to this call.
    pub fn new(call: impl Into<String>, reply: ToolReply) -> Self {
        Self { protocol: crate::OLDEST, call: call.into(), reply }
    }
}

/// Serde would read the fields of `reply` into a buffer first, which can't hold texts of JSON.
impl<'de> Deserialize<'de> for ToolResult {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Form {
            #[serde(default = "crate::first_protocol", deserialize_with = "integer_or::<1, _, _>")]
            protocol: u32,
            call: String,
            #[serde(default, deserialize_with = "present")]
            ok: Option<JsonText>,
            error: Option<ToolFailure>,
        }
        /// `"ok": null` is an answer, too.
        fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<JsonText>, D::Error> {
            JsonText::deserialize(from).map(Some)
        }
        let Form { protocol, call, ok, error } = object(from)?;
        let reply = match (ok, error) {
            (Some(result), None) => ToolReply::Ok(result),
            (None, Some(failure)) => ToolReply::Error(failure),
            _ => return Err(D::Error::custom("an answer has either `ok` or `error`")),
        };
        Ok(Self { protocol, call, reply })
    }
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolReply {
    /// The tool's result: any JSON.
    Ok(JsonText),
    /// Why the tool failed. The code gets it as a `ToolError`.
    Error(ToolFailure),
}

/// Why a tool failed. On the wire, it is a text, or an object with `type`, `message` and `data`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[serde(into = "FailureForm")]
#[schemars(with = "FailureForm")]
pub struct ToolFailure {
    /// Name of the error's type, such as `ValueError`. Python code can catch a built-in type by its own name, too.
    pub kind: Option<String>,
    /// What happened, for the code and the model that wrote it.
    pub message: String,
    /// More about the error: any JSON.
    pub data: Option<JsonText>,
}

impl ToolFailure {
    /// Whether the failure is a text and nothing else.
    fn is_text(&self) -> bool {
        self.kind.is_none() && self.data.is_none()
    }
}

impl<T: Into<String>> From<T> for ToolFailure {
    fn from(message: T) -> Self {
        Self { kind: None, message: message.into(), data: None }
    }
}

/// The two forms of a [`ToolFailure`] on the wire.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum FailureForm {
    /// What happened.
    Text(String),
    /// An error with a type.
    Typed(TypedFailure),
}

/// An error of a tool, with a type.
#[derive(Serialize, Deserialize, JsonSchema)]
struct TypedFailure {
    /// Name of the error's type, such as `ValueError`. Python code can catch a built-in type by its own name, too.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    /// What happened, for the code and the model that wrote it.
    message: String,
    /// More about the error: any JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<JsonText>,
}

/// Serde would read an untagged form into a buffer first, which can't hold texts of JSON.
impl<'de> Deserialize<'de> for ToolFailure {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = ToolFailure;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or an object with a `message`")
            }

            fn visit_str<E: Error>(self, message: &str) -> Result<ToolFailure, E> {
                Ok(message.into())
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ToolFailure, A::Error> {
                let TypedFailure { kind, message, data } = TypedFailure::deserialize(MapAccessDeserializer::new(map))?;
                Ok(ToolFailure { kind, message, data })
            }
        }
        from.deserialize_any(Read)
    }
}

impl From<ToolFailure> for FailureForm {
    fn from(failure: ToolFailure) -> Self {
        if failure.is_text() {
            return Self::Text(failure.message);
        }
        let ToolFailure { kind, message, data } = failure;
        Self::Typed(TypedFailure { kind, message, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_flat() {
        let answer: ToolResult = serde_json::from_str(r#"{"call": "c", "ok": null}"#).unwrap();
        assert_eq!(answer, ToolResult::new("c", ToolReply::Ok(serde_json::Value::Null.into())));
        let refusal = ToolResult::new("c", ToolReply::Error("no".into()));
        assert_eq!(serde_json::to_string(&refusal).unwrap(), r#"{"protocol":1,"call":"c","error":"no"}"#);
    }

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let text = r#"{"z": 18446744073709551617, "a": [1.50, -0, 1E+2, 0.123456789012345678901234567890], "b":  {}}"#;
        for (answer, is) in [("ok", text), ("error", "no"), ("error", text)] {
            let body = match is {
                "no" => r#""no""#.to_owned(),
                _ if answer == "error" => format!(r#"{{"message":"m","data":{text}}}"#),
                _ => text.to_owned(),
            };
            let body = format!(r#"{{"protocol":1,"call":"c","{answer}":{body}}}"#);
            let answer: ToolResult = serde_json::from_str(&body).unwrap();
            assert_eq!(serde_json::to_string(&answer).unwrap(), body);
        }
        for bad in ["", r#", "ok": 1, "error": "no""#, r#", "error": null"#] {
            assert!(serde_json::from_str::<ToolResult>(&format!(r#"{{"call": "c"{bad}}}"#)).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_error_is_a_text_or_has_a_type() {
        let failure = ToolFailure {
            kind: Some("KeyError".into()),
            message: "'x'".into(),
            data: Some((&serde_json::json!([1])).into()),
        };
        let answer = ToolResult::new("c", ToolReply::Error(failure));
        let text = r#"{"protocol":1,"call":"c","error":{"type":"KeyError","message":"'x'","data":[1]}}"#;
        assert_eq!(serde_json::to_string(&answer).unwrap(), text);
        assert_eq!(serde_json::from_str::<ToolResult>(text).unwrap(), answer);
        assert!(serde_json::from_str::<ToolReply>(r#"{"error": {"type": "KeyError"}}"#).is_err());
        assert!(serde_json::from_str::<ToolReply>(r#"{"error": 3}"#).is_err());
    }
}
