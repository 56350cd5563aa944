//! The slow look at a job that serde refused: the JSON Schema says where and why.

use std::sync::OnceLock;

use serde_json::Value;
use thermae_schemas::{ErrorCode, ErrorInfo, Job, PROTOCOL};

/// The schema, compiled once.
fn validator() -> Option<&'static jsonschema::Validator> {
    static VALIDATOR: OnceLock<Option<jsonschema::Validator>> = OnceLock::new();
    VALIDATOR
        .get_or_init(|| {
            let schema = schemars::schema_for!(Job);
            jsonschema::validator_for(schema.as_value())
                .inspect_err(|error| tracing::error!(%error, "the job's schema does not compile"))
                .ok()
        })
        .as_ref()
}

/// A version that is not read here.
pub(super) fn unsupported(protocol: u64) -> ErrorInfo {
    let message = format!("protocol {protocol} is not read here; this fleet speaks {PROTOCOL}");
    ErrorInfo::new(ErrorCode::UnsupportedProtocol, message)
}

/// Says what is wrong with a job. `refused` is serde's word, if it had one.
pub(super) fn explain(body: &[u8], refused: Option<serde_json::Error>) -> ErrorInfo {
    let value: Value = match serde_json::from_slice(body) {
        Ok(value) => value,
        Err(error) => return ErrorInfo::new(ErrorCode::MalformedJson, format!("the message is not JSON: {error}")),
    };
    // First of all: a job of another version may well have other fields.
    if let Some(protocol) = value.get("protocol").and_then(Value::as_u64)
        && !u32::try_from(protocol).is_ok_and(thermae_schemas::reads)
    {
        return unsupported(protocol);
    }
    let errors: Vec<_> = validator().map(|schema| schema.iter_errors(&value).take(8).collect()).unwrap_or_default();
    let unknown = |error: &&jsonschema::ValidationError<'_>| {
        matches!(error.kind(), jsonschema::error::ValidationErrorKind::AdditionalProperties { .. })
    };
    if let Some(error) = errors.iter().find(unknown) {
        return ErrorInfo::new(ErrorCode::UnknownField, at(&error.instance_path().to_string(), error));
    }
    if let Some(error) = errors.first() {
        return ErrorInfo::new(ErrorCode::SchemaViolation, at(&error.instance_path().to_string(), error));
    }
    // What the schema does not say: doubled fields, numbers that fit no type.
    let why = refused.map_or_else(|| "a value is out of its range".to_owned(), |error| error.to_string());
    ErrorInfo::new(ErrorCode::SchemaViolation, why)
}

/// The error with its place, cut to a length that fits an answer: it may quote the job.
fn at(path: &str, error: &jsonschema::ValidationError<'_>) -> String {
    let path = if path.is_empty() { "/" } else { path };
    let mut text = format!("{path}: {error}");
    if text.len() > 500 {
        let cut = (0..=500).rev().find(|n| text.is_char_boundary(*n)).unwrap_or(0);
        text.truncate(cut);
        text.push('…');
    }
    text
}
