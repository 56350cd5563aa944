//! Reads a batch.

use std::collections::HashSet;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;
use thermae_bridge::read::fields;
use thermae_schemas::{ErrorCode, Job, JobId};

use crate::problem::Problem;
use crate::service::job::{self, Read};

/// Most jobs of a batch.
const MOST_RUNS: usize = 10_000;

/// Many jobs that are submitted together.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchRequest<'a> {
    /// Id of the batch. Without one, it gets a new one. The same batch under its id is not submitted twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "JobId")]
    id: Option<JobId>,
    /// The jobs, each as the submit of a run takes it.
    #[serde(borrow)]
    #[schemars(with = "Vec<Job>", length(min = 1, max = 10_000))]
    jobs: Vec<&'a RawValue>,
}

/// Reads a batch: its id, and all its jobs.
pub(super) fn read(text: &[u8]) -> Result<(Option<JobId>, Vec<Read>), Problem> {
    let mut from = serde_json::Deserializer::from_slice(text);
    let BatchRequest { id, jobs } = fields(&mut from)?;
    from.end().map_err(|error| Problem::from((ErrorCode::MalformedJson, error.to_string())))?;
    if !(1..=MOST_RUNS).contains(&jobs.len()) {
        let detail = format!("/jobs: {} jobs; a batch has 1 to {MOST_RUNS}", jobs.len());
        return Err((ErrorCode::SchemaViolation, detail).into());
    }
    let mut ids = HashSet::new();
    let read = jobs.into_iter().enumerate().map(|(at, job)| {
        let at = |mut problem: Problem| {
            problem.detail = format!("/jobs/{at}: {}", problem.detail);
            problem
        };
        let read = job::read(&Bytes::copy_from_slice(job.get().as_bytes()), None).map_err(at)?;
        if !ids.insert(read.job.id.clone()) {
            let detail = format!("two jobs have the id {:?}", read.job.id.as_str());
            return Err(at((ErrorCode::SchemaViolation, detail).into()));
        }
        Ok(read)
    });
    Ok((id, read.collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_jobs_are_read() {
        let (id, jobs) = read(br#"{"id": "b", "jobs": [{"code": "1"}, {"id": "two", "code": "2"}]}"#).unwrap();
        assert_eq!((id.unwrap().as_str(), jobs.len()), ("b", 2));
        assert!(!jobs[0].named && jobs[1].job.id.as_str() == "two");
    }

    #[test]
    fn what_is_no_batch_is_told_with_the_field() {
        let many = format!(r#"{{"jobs": [{}]}}"#, vec!["{}"; MOST_RUNS + 1].join(","));
        for (text, code, says) in [
            ("", "schema_violation", "EOF"),
            ("[]", "schema_violation", ""),
            ("{}", "schema_violation", "jobs"),
            (r#"{"jobs": []}"#, "schema_violation", "/jobs: 0 jobs"),
            (many.as_str(), "schema_violation", "10001 jobs"),
            (r#"{"jobs": [{"code": "1"}], "wait": 1}"#, "unknown_field", "wait"),
            (r#"{"jobs": [{"code": "1"}]} {}"#, "malformed_json", "trailing"),
            (r#"{"jobs": [{"code": "1"}], "id": "a b"}"#, "schema_violation", "/id"),
            (r#"{"jobs": [{"code": "1"}, {"code": 2}]}"#, "schema_violation", "/jobs/1: /code"),
            (r#"{"jobs": [{"code": "1"}, {"code": "", "wall": 2}]}"#, "unknown_field", "/jobs/1: "),
            (r#"{"jobs": [{"id": "a", "code": "1"}, {"id": "a", "code": "2"}]}"#, "schema_violation", "/jobs/1: two"),
        ] {
            let problem = read(text.as_bytes()).err().unwrap();
            assert!(problem.code == code && problem.detail.contains(says), "{text:.80}: {problem:?}");
        }
    }
}
