//! Reads the job of a submit.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use thermae_bridge::read::{bounded_job, fields, unsupported};
use thermae_schemas::{Body, ErrorCode, Job, JobId, lacks_code, reads};

use crate::problem::Problem;

/// What a value of JSON takes in memory at most, besides its text: an entry of an environment, or half a tool.
pub(crate) const PER_VALUE: usize = 256;

/// What tells whether two jobs are the same.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    pub(super) id: JobId,
    pub(super) key: Option<String>,
    /// Digest of everything but the id.
    pub(super) digest: [u8; 32],
    /// Whether the client chose the id.
    pub(super) named: bool,
}

/// Reads a job, which may lack an id, after `hold` has held its memory. `key` is the header `Idempotency-Key`.
pub(super) fn read(
    text: &[u8],
    key: Option<&str>,
    hold: impl FnOnce(usize) -> Result<(), Problem>,
) -> Result<(Job, Identity), Problem> {
    // The text with an id, the job, and the text as it is sent.
    hold(3 * text.len() + bounded_job(text)?.values * PER_VALUE)?;
    let named = id_of(text).is_some_and(|id| id.get() != RawValue::NULL.get());
    if named { parse(text, key, true) } else { parse(&with_id(text, &JobId::random()), key, false) }
}

/// Reads a job again, which now has this id, if it had none.
pub(super) fn read_again(text: &[u8], identity: &Identity) -> Result<Job, Problem> {
    let spliced = if identity.named { None } else { Some(with_id(text, &identity.id)) };
    parse(spliced.as_deref().unwrap_or(text), None, identity.named).map(|(job, _)| job)
}

fn parse(text: &[u8], key: Option<&str>, named: bool) -> Result<(Job, Identity), Problem> {
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
    let (id, key) = (job.id.clone(), job.idempotency_key.clone());
    let digest = digest(&mut job)?;
    Ok((job, Identity { id, key, digest, named }))
}

fn digest(job: &mut Job) -> Result<[u8; 32], Problem> {
    let unnamed = JobId::new("-").map_err(|error| Problem::new("internal_error", error.to_string()))?;
    let id = std::mem::replace(&mut job.id, unnamed);
    let text = job.to_json();
    job.id = id;
    Ok(Sha256::digest(text.map_err(|error| Problem::new("bad_body", error.to_string()))?).into())
}

/// Where the text has an id, of any type. `None` if it has none. Null is none, too, but has a place.
fn id_of(text: &[u8]) -> Option<&RawValue> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow, default, deserialize_with = "present")]
        id: Option<&'a RawValue>,
    }
    // A text that has two ids, or is no object, is refused later.
    serde_json::from_slice::<Named<'_>>(text).map_or(Some(RawValue::TRUE), |named| named.id)
}

fn present<'de: 'a, 'a, D: Deserializer<'de>>(from: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// The text with this id, if it has none. The rest of it stays, byte for byte: a job's inputs keep every digit. What is
/// no object stays as it is.
fn with_id(text: &[u8], id: &JobId) -> Vec<u8> {
    if let Some(null) = id_of(text).map(RawValue::get) {
        let begin = null.as_ptr().addr() - text.as_ptr().addr();
        return [&text[..begin], format!("\"{id}\"").as_bytes(), &text[begin + null.len()..]].concat();
    }
    let Some(open) = text.iter().position(|byte| *byte == b'{') else { return text.to_vec() };
    let rest = &text[open + 1..];
    let is_empty = rest.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'}');
    let added = format!("\"id\":\"{id}\"{}", if is_empty { "" } else { "," });
    [&text[..=open], added.as_bytes(), rest].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, key: Option<&str>) -> Result<(Job, Identity), Problem> {
        read(text.as_bytes(), key, |_| Ok(()))
    }

    #[test]
    fn a_job_needs_no_id_and_keeps_every_digit() {
        let one = of(r#" {"code": "1", "inputs": {"n": {"value": 1180591620717411303424}}}"#, None).unwrap();
        assert!(!one.1.named && one.0.id.as_str().len() == 36);
        assert!(String::from_utf8(one.0.to_json().unwrap()).unwrap().contains("1180591620717411303424"));
        let null =
            of(r#"{"code": "1", "id": null , "inputs": {"n": {"value": 1180591620717411303424}}}"#, None).unwrap();
        assert!(!null.1.named && null.0.id.as_str().len() == 36 && null.1.digest == one.1.digest);
        let again = read_again(br#"{"code": "1"}"#, &one.1).unwrap();
        assert_eq!((again.id, again.code.as_str()), (one.0.id.clone(), "1"));
        let two = of(r#"{"id": "a", "code": "1", "inputs": {"n": {"value": 1180591620717411303424}}}"#, None).unwrap();
        assert!(two.1.named && two.1.digest == one.1.digest);
        assert_ne!(of(r#"{"code": "2"}"#, None).unwrap().1.digest, one.1.digest);
    }

    #[test]
    fn the_header_is_the_jobs_key() {
        assert_eq!(of(r#"{"code": ""}"#, Some("k")).unwrap().0.idempotency_key.as_deref(), Some("k"));
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
            (r#"{"code": "", "id": null, "id": null}"#, "schema_violation", "/id"),
            (r#"{"code": "", "id": "a", "id": "b"}"#, "schema_violation", "at /id: the key"),
            (
                r#"{"code": "", "files": [{"path": "x", "base64": "AP8"}]}"#,
                "schema_violation",
                "/files/0/base64: is not",
            ),
            (r#"{"code": "", "protocol": 9}"#, "unsupported_protocol", "9"),
            (r#"{"code": "", "capabilities": null}"#, "bad_capability", "capabilities"),
        ] {
            let problem = of(text, None).err().unwrap();
            assert!(problem.code == code && problem.detail.contains(says), "{text}: {problem:?}");
            assert!(code == "malformed_json" || !problem.detail.contains("column"), "{problem:?}");
        }
    }
}
