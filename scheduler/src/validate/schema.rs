//! Explains why serde refused a job. This is slow: the JSON Schema says where and why.

use std::sync::OnceLock;

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use thermae_schemas::json::{MOST_IN_A_JOB, code_of, measure_job, measure_unique};
use thermae_schemas::{Capabilities, Content, ErrorCode, ErrorInfo, Job, MalformedCapabilities, OLDEST};

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

/// The refusal of a protocol version that this release doesn't read.
pub(crate) fn unsupported(protocol: u64, newest: u32) -> ErrorInfo {
    let spoken = if newest == OLDEST { newest.to_string() } else { format!("{OLDEST} to {newest}") };
    let message = format!("protocol {protocol} is not supported; this fleet speaks {spoken}");
    ErrorInfo::new(ErrorCode::UnsupportedProtocol, message)
}

/// Explains what is wrong with a job. `refused` is serde's error, if there was one.
pub(super) fn explain(body: &[u8], newest: u32, refused: Option<serde_json::Error>) -> ErrorInfo {
    // A body with too many values must not become a tree only to explain that.
    if let Err(error) = measure_unique(body, MOST_IN_A_JOB)
        && error.is_data()
    {
        // Inputs may have more values. Then serde itself says what is wrong.
        let why = refused.filter(|_| measure_job(body).is_ok()).unwrap_or(error);
        return ErrorInfo::new(code_of(&why), cut(format!("the job can't be read: {why}")));
    }
    let value: Value = match serde_json::from_slice(body) {
        Ok(value) => value,
        Err(error) => return ErrorInfo::new(ErrorCode::MalformedJson, format!("the message is not JSON: {error}")),
    };
    // This comes first, because a job of another version may have other fields.
    if let Some(protocol) = value.get("protocol").and_then(Value::as_u64)
        && !u32::try_from(protocol).is_ok_and(|protocol| (OLDEST..=newest).contains(&protocol))
    {
        return unsupported(protocol, newest);
    }
    if let Some(error) = bad_capability(body) {
        return ErrorInfo::new(ErrorCode::BadCapability, cut(error.to_string()));
    }
    let errors: Vec<_> = validator().map(|schema| schema.iter_errors(&value).take(8).collect()).unwrap_or_default();
    let errors: Vec<_> = errors.iter().map(meant).collect();
    if let Some(error) = errors.iter().find(|error| is_unknown_field(error)) {
        return ErrorInfo::new(ErrorCode::UnknownField, at(&error.instance_path().to_string(), error));
    }
    if let Some(error) = errors.first() {
        return ErrorInfo::new(ErrorCode::SchemaViolation, at(&error.instance_path().to_string(), error));
    }
    // The schema doesn't know numbers that fit no type.
    let why = refused.map_or_else(|| "a value is out of range".to_owned(), |error| error.to_string());
    ErrorInfo::new(ErrorCode::SchemaViolation, why)
}

/// What is wrong with the job's capabilities, in the words of those who read them.
fn bad_capability(body: &[u8]) -> Option<MalformedCapabilities> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        capabilities: &'a RawValue,
    }
    let Named { capabilities } = serde_json::from_slice(body).ok()?;
    Capabilities::from_json(capabilities.get()).err()
}

fn is_unknown_field(error: &ValidationError<'_>) -> bool {
    matches!(error.kind(), ValidationErrorKind::AdditionalProperties { .. })
}

/// The error that matters. If a field is optional, its schema also allows null: the error of the other branch counts.
fn meant<'e, 'i>(error: &'e ValidationError<'i>) -> &'e ValidationError<'i> {
    let (ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context }) = error.kind() else {
        return error;
    };
    let or_nothing = |branch: &&Vec<ValidationError<'_>>| {
        branch.iter().any(|cause| cause.to_string().ends_with("is not of type \"null\""))
    };
    let mut branches = context.iter().filter(|branch| !or_nothing(branch));
    let (Some(branch), None) = (branches.next(), branches.next()) else { return error };
    let cause = branch.iter().find(|cause| is_unknown_field(cause)).or(branch.first());
    cause.map_or(error, meant)
}

/// The error in words. If the value fits no branch of an `anyOf` or `oneOf`, the text says what each branch needs.
fn words(error: &ValidationError<'_>) -> String {
    use ValidationErrorKind::{AnyOf, Constant, Enum, OneOfMultipleValid, OneOfNotValid, Pattern, Required};
    if let Pattern { pattern } = error.kind()
        && pattern == Content::PATTERN
    {
        return Content::FORM.to_owned();
    }
    if let (OneOfMultipleValid { .. }, Value::Object(fields)) = (error.kind(), error.instance().as_ref()) {
        let fields: Vec<_> = fields.keys().map(|field| format!("\"{field}\"")).collect();
        return format!("has several fields where one alone is allowed: it has {}", fields.join(", "));
    }
    let (AnyOf { context } | OneOfNotValid { context }) = error.kind() else { return error.to_string() };
    let (mut values, mut fields, mut others) = (Vec::new(), Vec::new(), Vec::new());
    let is_value = |cause: &&ValidationError<'_>| matches!(cause.kind(), Constant { .. } | Enum { .. });
    for cause in context.iter().filter_map(|branch| branch.iter().find(is_value).or(branch.first())) {
        match cause.kind() {
            Constant { expected_value } => values.push(expected_value.to_string()),
            Enum { options } => values.extend(options.as_array().into_iter().flatten().map(Value::to_string)),
            Required { property } => fields.push(property.to_string()),
            _ => others.push(cause.to_string()),
        }
    }
    if others.is_empty() && fields.is_empty() {
        return format!("{} is not one of {}", error.instance(), values.join(", "));
    }
    if fields.iter().any(|field| field == "\"code\"") {
        return "\"code\" is missing; only a job with \"argv\", or one that closes its session, may omit it".to_owned();
    }
    let fields = fields.iter().map(|field| format!("{field} is missing"));
    let values = values.iter().map(|value| format!("it is not {value}"));
    fields.chain(values).chain(others).collect::<Vec<_>>().join(", and ")
}

/// The error with its path. It is cut, because it may quote the job.
fn at(path: &str, error: &ValidationError<'_>) -> String {
    let path = if path.is_empty() { "/" } else { path };
    cut(format!("{path}: {}", words(error)))
}

/// The text, cut to a length that fits an answer.
pub(crate) fn cut(mut text: String) -> String {
    if text.len() > 500 {
        let cut = (0..=500).rev().find(|n| text.is_char_boundary(*n)).unwrap_or(0);
        text.truncate(cut);
        text.push('…');
    }
    text
}
