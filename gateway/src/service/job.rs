//! Reads the job of a submit.

use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use sha2::{Digest, Sha256};
use thermae_bridge::read::{bounded, fields, unsupported};
use thermae_schemas::{Body, ErrorCode, Job, JobId, lacks_code, reads};

use crate::problem::Problem;

/// A job, and what tells whether another is the same.
pub(super) struct Read {
    pub(super) job: Job,
    /// Digest of everything but the id.
    pub(super) digest: [u8; 32],
    /// Whether the client chose the id.
    pub(super) named: bool,
}

/// Reads a job, which may lack an id. `key` is the header `Idempotency-Key`.
pub(super) fn read(text: &Bytes, key: Option<&str>) -> Result<Read, Problem> {
    bounded(text, "job")?;
    let named = has_id(text);
    let spliced = if named { None } else { with_id(text) };
    let text: &[u8] = spliced.as_deref().unwrap_or(text);
    let read: Result<Job, _> = fields(&mut serde_json::Deserializer::from_slice(text));
    let mut job = read.map_err(|(code, message)| {
        // The column would be that of a text that the caller has never seen.
        let message = message.split_once(" at line ").map_or(message.clone(), |(message, _)| message.to_owned());
        (code, message)
    })?;
    if !reads(job.protocol) {
        return Err(unsupported(job.protocol).into());
    }
    if lacks_code(&job, text) {
        return Err((ErrorCode::SchemaViolation, "/: the job has neither `code` nor `argv`".to_owned()).into());
    }
    if let Some(key) = key {
        if !(1..=128).contains(&key.len()) {
            return Err(Problem::new("bad_header", "Idempotency-Key has 1 to 128 characters"));
        }
        match &job.idempotency_key {
            Some(other) if other != key => {
                let detail = "the header Idempotency-Key and the job's idempotency_key differ";
                return Err(Problem::new("bad_header", detail));
            }
            _ => job.idempotency_key = Some(key.to_owned()),
        }
    }
    let digest = digest(&job)?;
    Ok(Read { job, digest, named })
}

fn digest(job: &Job) -> Result<[u8; 32], Problem> {
    let unnamed = JobId::new("-").map_err(|error| Problem::new("internal_error", error.to_string()))?;
    let text = Job { id: unnamed, ..job.clone() }.to_json();
    let text = text.map_err(|error| Problem::new("bad_body", error.to_string()))?;
    Ok(Sha256::digest(text).into())
}

/// Whether the text has an id, of any type.
fn has_id(text: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Named {
        #[serde(default, deserialize_with = "present")]
        id: bool,
    }
    // A text that has two ids, or is no object, is refused later.
    serde_json::from_slice::<Named>(text).map_or(true, |named| named.id)
}

fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(from).map(|_| true)
}

/// The text with a new id. The rest of it stays, byte for byte: a job's inputs keep every digit.
fn with_id(text: &[u8]) -> Option<Vec<u8>> {
    let open = text.iter().position(|byte| *byte == b'{')?;
    let rest = &text[open + 1..];
    let is_empty = rest.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'}');
    let mut with = text[..=open].to_vec();
    with.extend_from_slice(format!("\"id\":\"{}\"{}", JobId::random(), if is_empty { "" } else { "," }).as_bytes());
    with.extend_from_slice(rest);
    Some(with)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, key: Option<&str>) -> Result<Read, Problem> {
        read(&Bytes::copy_from_slice(text.as_bytes()), key)
    }

    #[test]
    fn a_job_needs_no_id_and_keeps_every_digit() {
        let one = of(r#" {"code": "1", "inputs": {"n": {"value": 1180591620717411303424}}}"#, None).unwrap();
        assert!(!one.named && one.job.id.as_str().len() == 36);
        assert!(String::from_utf8(one.job.to_json().unwrap()).unwrap().contains("1180591620717411303424"));
        let two = of(r#"{"id": "a", "code": "1", "inputs": {"n": {"value": 1180591620717411303424}}}"#, None).unwrap();
        assert!(two.named && two.digest == one.digest);
        assert_ne!(of(r#"{"code": "2"}"#, None).unwrap().digest, one.digest);
    }

    #[test]
    fn the_header_is_the_jobs_key() {
        assert_eq!(of(r#"{"code": ""}"#, Some("k")).unwrap().job.idempotency_key.as_deref(), Some("k"));
        assert!(of(r#"{"code": "", "idempotency_key": "k"}"#, Some("k")).is_ok());
        assert_eq!(of(r#"{"code": "", "idempotency_key": "l"}"#, Some("k")).err().unwrap().code, "bad_header");
        assert_eq!(of(r#"{"code": ""}"#, Some(&"k".repeat(129))).err().unwrap().code, "bad_header");
    }

    #[test]
    fn what_is_no_job_is_told_with_the_field() {
        for (text, code, says) in [
            ("", "malformed_json", "EOF"),
            ("[]", "schema_violation", ""),
            ("{}", "schema_violation", "code"),
            (r#"{"code": 1}"#, "schema_violation", "/code: "),
            (r#"{"code": "", "limits": {"wall": 1}}"#, "unknown_field", "/limits"),
            (r#"{"code": "", "id": "a b"}"#, "schema_violation", "/id"),
            (r#"{"code": "", "id": null}"#, "schema_violation", "/id"),
            (r#"{"code": "", "id": "a", "id": "b"}"#, "schema_violation", "duplicate"),
            (r#"{"code": "", "protocol": 9}"#, "unsupported_protocol", "9"),
            (r#"{"code": "", "capabilities": null}"#, "bad_capability", "capabilities"),
        ] {
            let problem = of(text, None).err().unwrap();
            assert!(problem.code == code && problem.detail.contains(says), "{text}: {problem:?}");
            assert!(code == "malformed_json" || !problem.detail.contains("column"), "{problem:?}");
        }
    }
}
