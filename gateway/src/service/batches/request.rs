//! Reads a batch.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

use schemars::JsonSchema;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use thermae_bridge::read::fields;
use thermae_schemas::{ErrorCode, Job, JobId};

use crate::budget::Held;
use crate::problem::Problem;
use crate::service::job::{self, Identity};

/// Most jobs of a batch.
const MOST_RUNS: usize = 10_000;

/// What is kept of each job while the batch is submitted, besides its text.
const PER_LINE: usize = 512;

/// Many jobs that are submitted together.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchRequest<'a> {
    /// Id of the batch. Without one, it gets a new one. The same batch under its id is not submitted twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<JobId>,
    /// The jobs, each as the submit of a run takes it.
    #[serde(borrow, deserialize_with = "bounded")]
    #[schemars(with = "Vec<Job>", length(min = 1, max = 10_000))]
    jobs: Vec<&'a RawValue>,
}

/// Reads the texts of jobs, no more than a batch may have.
fn bounded<'de: 'a, 'a, D: Deserializer<'de>>(from: D) -> Result<Vec<&'a RawValue>, D::Error> {
    struct Jobs;
    impl<'de> Visitor<'de> for Jobs {
        type Value = Vec<&'de RawValue>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of jobs")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut jobs: A) -> Result<Self::Value, A::Error> {
            let mut read = Vec::new();
            while let Some(job) = jobs.next_element()? {
                if read.len() == MOST_RUNS {
                    return Err(A::Error::custom(format!("more than {MOST_RUNS} jobs")));
                }
                read.push(job);
            }
            Ok(read)
        }
    }
    from.deserialize_seq(Jobs)
}

/// A job of a batch.
pub(super) struct Line {
    pub(super) identity: Identity,
    /// Where it is in the text of the batch. As a value it would take many times its bytes, so it is read again when it
    /// is submitted.
    pub(super) place: Range<usize>,
    pub(super) has_session: bool,
}

/// Reads a batch: its id, and all its jobs, one after the other. `held` gets what is kept of them, by
/// way of `grow`.
pub(super) fn read(
    text: &[u8],
    held: &mut Held,
    grow: impl Fn(&mut Held, usize) -> Result<(), Problem>,
) -> Result<(Option<JobId>, Vec<Line>), Problem> {
    let mut from = serde_json::Deserializer::from_slice(text);
    let BatchRequest { id, jobs } = fields(&mut from)?;
    from.end().map_err(|error| Problem::from((ErrorCode::MalformedJson, error.to_string())))?;
    if jobs.is_empty() {
        let detail = format!("/jobs: 0 jobs; a batch has 1 to {MOST_RUNS}");
        return Err((ErrorCode::SchemaViolation, detail).into());
    }
    grow(held, jobs.len() * PER_LINE)?;
    let (mut ids, kept) = (HashSet::new(), held.bytes());
    let read = jobs.into_iter().enumerate().map(|(at, job)| {
        let at = |mut problem: Problem| {
            problem.detail = format!("/jobs/{at}: {}", problem.detail);
            problem
        };
        let (read, identity) = job::read(job.get().as_bytes(), None, |bytes| grow(held, bytes)).map_err(at)?;
        if !ids.insert(identity.id.clone()) {
            let detail = format!("two jobs have the id {:?}", identity.id.as_str());
            return Err(at((ErrorCode::SchemaViolation, detail).into()));
        }
        let begin = job.get().as_ptr().addr() - text.as_ptr().addr();
        let has_session = read.session.is_some();
        drop(read);
        held.set(kept);
        Ok(Line { identity, place: begin..begin + job.get().len(), has_session })
    });
    Ok((id, read.collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, most: usize) -> Result<(Option<JobId>, Vec<Line>), Problem> {
        let metrics = crate::Metrics::new(&prometheus::Registry::new()).unwrap();
        read(text.as_bytes(), &mut crate::budget::Budget::new(most, &metrics).hold(), Held::take)
    }

    #[test]
    fn all_jobs_are_read() {
        let text = r#"{"id": "b", "jobs": [{"code": "1"}, {"id": "two", "code": "2"}]}"#;
        let (id, jobs) = of(text, 1 << 20).unwrap();
        assert_eq!((id.unwrap().as_str(), jobs.len()), ("b", 2));
        assert!(!jobs[0].identity.named && jobs[1].identity.id.as_str() == "two");
        assert_eq!(&text[jobs[0].place.clone()], r#"{"code": "1"}"#);
        assert_eq!(of(text, 100).err().unwrap().code, "gateway_full");
    }

    #[test]
    fn what_is_no_batch_is_told_with_the_field() {
        let many = format!(r#"{{"jobs": [{}]}}"#, vec!["{}"; MOST_RUNS + 1].join(","));
        for (text, code, says) in [
            ("", "schema_violation", "EOF"),
            ("[]", "schema_violation", ""),
            ("{}", "schema_violation", "jobs"),
            (r#"{"jobs": []}"#, "schema_violation", "/jobs: 0 jobs"),
            (many.as_str(), "schema_violation", "more than 10000 jobs"),
            (r#"{"jobs": [{"code": "1"}], "wait": 1}"#, "unknown_field", "wait"),
            (r#"{"jobs": [{"code": "1"}]} {}"#, "malformed_json", "trailing"),
            (r#"{"jobs": [{"code": "1"}], "id": "a b"}"#, "schema_violation", "/id"),
            (r#"{"jobs": [{"code": "1"}, {"code": 2}]}"#, "schema_violation", "/jobs/1: /code"),
            (r#"{"jobs": [{"code": "1"}, {"code": "", "wall": 2}]}"#, "unknown_field", "/jobs/1: "),
            (r#"{"jobs": [{"id": "a", "code": "1"}, {"id": "a", "code": "2"}]}"#, "schema_violation", "/jobs/1: two"),
        ] {
            let problem = of(text, 1 << 30).err().unwrap();
            assert!(problem.code == code && problem.detail.contains(says), "{text:.80}: {problem:?}");
        }
    }
}
