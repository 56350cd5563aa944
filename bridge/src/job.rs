//! Reads the job of a `run`. Requests to sessions are read by the same rules.

use serde::{Deserialize, Deserializer};
use serde_path_to_error::Segment;
use thermae_schemas::json::{MOST_IN_A_JOB, Measure, code_of, measure_job, measure_unique};
use thermae_schemas::{
    Body, ErrorCode, ErrorInfo, Event, EventBody, Job, JobId, Object, Outcome, PROTOCOL, Status, lacks_code,
    read_object, reads,
};

use crate::Refusal;

/// A job that can't be read.
pub(crate) enum Unread {
    /// The job's outcome, as an event: its id is known.
    Rejected(Vec<u8>),
    /// Not even its id is known.
    Refused(Refusal),
}

/// Reads a job.
pub(crate) fn read(text: &[u8]) -> Result<Job, Unread> {
    parse(text).map_err(|(code, message)| {
        let refused = || Unread::Refused(Refusal::new(code.as_str(), message.clone()));
        let Some(id) = id(text) else { return refused() };
        result(id, Outcome::rejected(code, message.clone())).map_or_else(|_| refused(), Unread::Rejected)
    })
}

/// The result of a job that was cancelled before it was submitted.
pub(crate) fn cancelled(id: JobId) -> Result<Vec<u8>, Refusal> {
    let error = ErrorInfo::new(ErrorCode::Cancelled, "The client cancelled the job before it was submitted.");
    result(id, Outcome::with_error(Status::Cancelled, error)).map_err(|_| Refusal::cancelled())
}

fn result(id: JobId, outcome: Outcome) -> Result<Vec<u8>, serde_json::Error> {
    Event::new(id, 0, EventBody::Result(outcome)).to_json()
}

fn parse(text: &[u8]) -> Result<Job, (ErrorCode, String)> {
    bounded_job(text)?;
    let job: Job = fields(&mut serde_json::Deserializer::from_slice(text))?;
    if !reads(job.protocol) {
        return Err(unsupported(job.protocol));
    }
    if lacks_code(&job, text) {
        return Err((ErrorCode::SchemaViolation, "/: the job has neither `code` nor `argv`".to_owned()));
    }
    Ok(job)
}

/// Refuses what is not JSON, too much of it, or JSON with several readings; measures the rest. `what` names it.
///
/// # Errors
/// The code of the error, and a message.
pub fn bounded(text: &[u8], what: &str) -> Result<Measure, (ErrorCode, String)> {
    measure_unique(text, MOST_IN_A_JOB).map_err(|error| unreadable(what, &error))
}

/// [`bounded`] for a job, the values of whose inputs are not counted.
///
/// # Errors
/// The code of the error, and a message.
pub fn bounded_job(text: &[u8]) -> Result<Measure, (ErrorCode, String)> {
    measure_job(text).map_err(|error| unreadable("job", &error))
}

fn unreadable(what: &str, error: &serde_json::Error) -> (ErrorCode, String) {
    (code_of(error), format!("the {what} can't be read: {error}"))
}

/// Reads an object. An error has the path of the field.
///
/// # Errors
/// The code of the error, and a message.
pub fn fields<'de, T: Deserialize<'de>>(
    from: impl Deserializer<'de, Error = serde_json::Error>,
) -> Result<T, (ErrorCode, String)> {
    serde_path_to_error::deserialize(Object(from)).map_err(|error| {
        let inner = error.inner().to_string();
        if error.path().to_string() == "capabilities" {
            // The message has its own place; the column is that of a text that the caller has never seen.
            let message = inner.rsplit_once(" at line ").map_or(inner.as_str(), |(message, _)| message);
            return (ErrorCode::BadCapability, message.to_owned());
        }
        let unknown = inner.starts_with("unknown field");
        let code = if unknown { ErrorCode::UnknownField } else { ErrorCode::SchemaViolation };
        (code, format!("{}: {inner}", pointer(error.path())))
    })
}

/// The path of a field, as a JSON pointer.
fn pointer(path: &serde_path_to_error::Path) -> String {
    let part = |segment: &Segment| match segment {
        Segment::Seq { index } => format!("/{index}"),
        Segment::Map { key } => format!("/{key}"),
        // What is chosen stands in the text, and so does what isn't known.
        Segment::Enum { .. } | Segment::Unknown => String::new(),
    };
    let parts: String = path.iter().map(part).collect();
    if parts.is_empty() { "/".to_owned() } else { parts }
}

/// Refuses a version of the protocol.
pub fn unsupported(protocol: u32) -> (ErrorCode, String) {
    let message = format!("protocol {protocol} is not supported; this release speaks {PROTOCOL}");
    (ErrorCode::UnsupportedProtocol, message)
}

/// The id of a job that is not well-formed otherwise.
fn id(text: &[u8]) -> Option<JobId> {
    #[derive(serde::Deserialize)]
    struct Named {
        id: JobId,
    }
    read_object::<Named>(text).ok().map(|named| named.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(text: &str) -> (ErrorCode, String) {
        match read(text.as_bytes()) {
            Err(Unread::Rejected(event)) => match Event::parse(&event).unwrap().body {
                EventBody::Result(outcome) => outcome.error.map(|error| (error.code, error.message)).unwrap(),
                body => panic!("{body:?}"),
            },
            Err(Unread::Refused(refusal)) => panic!("{text}: {refusal:?}"),
            Ok(job) => panic!("{job:?}"),
        }
    }

    #[test]
    fn a_job_that_has_an_id_is_rejected_with_the_fleets_own_codes() {
        for (text, code, says) in [
            (r#"{"id": "a", "code": "", "limits": {"wall": 1}}"#, ErrorCode::UnknownField, "/limits"),
            (r#"{"id": "a", "code": "", "colour": 1}"#, ErrorCode::UnknownField, "colour"),
            (r#"{"id": "a", "code": 1}"#, ErrorCode::SchemaViolation, "/code: "),
            (r#"{"id": "a"}"#, ErrorCode::SchemaViolation, "code"),
            (
                r#"{"id": "a", "code": "", "capabilities": [{"pattern": ""}]}"#,
                ErrorCode::BadCapability,
                "capabilities[0].pattern: is empty",
            ),
            (r#"{"id": "a", "code": "", "capabilities": null}"#, ErrorCode::BadCapability, "capabilities: must be"),
            (r#"{"id": "a", "code": "", "protocol": 9}"#, ErrorCode::UnsupportedProtocol, "9"),
            (
                r#"{"id": "a", "code": "", "files": [{"path": "x", "base64": "AAAA\n"}]}"#,
                ErrorCode::SchemaViolation,
                "/files/0/base64: is not base64",
            ),
        ] {
            let (found, message) = rejected(text);
            assert!(found == code && message.contains(says), "{text}: {found:?} {message}");
        }
    }

    #[test]
    fn a_job_without_an_id_is_an_error_of_the_request() {
        for (text, code) in [
            ("", "malformed_json"),
            ("{", "malformed_json"),
            ("[]", "schema_violation"),
            (r#"["a"]"#, "schema_violation"),
            (r#"{"id": "a b"}"#, "schema_violation"),
        ] {
            assert!(matches!(read(text.as_bytes()), Err(Unread::Refused(refusal)) if refusal.code == code), "{text}");
        }
        let nested = "[".repeat(200_000);
        assert!(matches!(read(nested.as_bytes()), Err(Unread::Refused(_))));
    }
}
