//! A job at the head of its lane: it was taken from the queue and checked, and waits for its turn.

use std::sync::Arc;
use std::time::Instant;

use sha2::{Digest, Sha256};
use thermae_backplane::bus::Delivery;
use thermae_backplane::record;
use thermae_backplane::registry::JobKey;
use thermae_schemas::{Body, Job, SessionRequest, Stream, names};

use crate::age;
use crate::context::{self, Name, now_ms};
use crate::lane::Lane;

/// Each job holds a clone, so that the lane knows whether its consumer can end. The count of the outer `Arc` tells how
/// many jobs of this consumer are in hand, the count of the inner one how many consumers of the lane still have such
/// jobs.
pub(crate) type Held = Arc<Arc<()>>;

/// A job at the head of its lane. Its code stays in the delivery's bytes.
pub(crate) struct Head {
    pub(crate) lane: Lane,
    pub(crate) key: JobKey,
    /// Version of the protocol that the job's worker must speak.
    pub(crate) protocol: u32,
    pub(crate) session: Option<SessionRequest>,
    pub(crate) max_attempts: u32,
    pub(crate) idempotency_key: Option<String>,
    /// See [`thermae_backplane::registry::Admit::digest`].
    pub(crate) digest: String,
    /// The moment before which the code must start, in milliseconds since 1970.
    pub(crate) deadline: Option<u64>,
    /// The client asked for the event `accepted`.
    pub(crate) lifecycle: bool,
    /// When it was submitted, in milliseconds since 1970. `None` if the message has no credible time.
    pub(crate) submitted: Option<u64>,
    /// An earlier copy of the submit message may exist.
    pub(crate) repeat: bool,
    /// The registry may have given this job credit: an earlier hand-out failed after that, or its answer was lost. Such
    /// a job may be handed out even if its pool has no free credit.
    pub(crate) may_have_credit: bool,
    pub(crate) delivery: Delivery,
    /// Held until the delivery is settled.
    pub(crate) held: Option<Held>,
    pub(crate) seen: Instant,
    pub(crate) span: tracing::Span,
}

impl Head {
    pub(crate) fn new(lane: Lane, job: Job, delivery: Delivery) -> Self {
        let message = &delivery.message;
        let now = now_ms();
        let submitted = age::submitted(message, now);
        let since = submitted.unwrap_or(now);
        let deadline = job.start_within_ms.map(|within| since.saturating_add(within));
        let digest = digest(&job);
        let key = JobKey::new(lane.tenant.clone(), job.id);
        let span = context::span(Name::Schedule, &key, message);
        let repeat = delivery.redelivered || message.headers.flag(names::H_RESEND);
        Self {
            lane,
            key,
            protocol: job.protocol,
            session: job.session,
            max_attempts: job.max_attempts,
            idempotency_key: job.idempotency_key,
            digest,
            deadline,
            lifecycle: job.stream.contains(&Stream::Lifecycle),
            submitted,
            repeat,
            may_have_credit: repeat,
            delivery,
            held: None,
            seen: Instant::now(),
            span,
        }
    }

    pub(crate) fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| now_ms() >= deadline)
    }
}

/// Digest of a refused message. If the body is a job, it is the job's digest, else that of the body. A body of more
/// than `most` bytes can't be a job: its digest covers its length and its first `most` bytes.
pub(crate) fn digest_of(body: &[u8], most: u64) -> String {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let Some(beginning) = body.get(..most).filter(|_| body.len() > most) else {
        return match Job::parse(body) {
            Ok(job) => digest(&job),
            Err(_) => record::digest(body),
        };
    };
    hex::encode(Sha256::new().chain_update(body.len().to_be_bytes()).chain_update(beginning).finalize())
}

/// Digest of a job without its id. Equal jobs have equal digests, because the keys of all objects are sorted.
/// Registries hold digests that other versions made, so these bytes must never change.
fn digest(job: &Job) -> String {
    let mut value = serde_json::to_value(job).unwrap_or_default();
    if let Some(job) = value.as_object_mut() {
        job.remove("id");
    }
    value.sort_all_objects();
    // Writing a tree to memory can't fail.
    record::digest(&serde_json::to_vec(&value).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_jobs_have_equal_digests_whatever_their_ids() {
        let text = |id: &str, schema: &str| {
            format!(
                r#"{{"id": "{id}", "code": "pass", "labels": {{"b": "1", "a": "2"}},
                    "tools": [{{"name": "t", "input_schema": {schema}}}]}}"#
            )
        };
        let digest = |id, schema| digest_of(text(id, schema).as_bytes(), u64::MAX);
        let one = digest("one", r#"{"type": "object", "properties": {"a": {"x": 1, "y": 2}, "b": {}}}"#);
        let same = digest("two", r#"{"properties":{"b":{},"a":{"y":2,"x":1}},"type":"object"}"#);
        assert_eq!(one, same);
        assert_ne!(one, digest("one", r#"{"type": "object", "properties": {"a": {"x": 1, "y": 3}, "b": {}}}"#));
    }

    #[test]
    fn digests_are_those_of_other_versions() {
        let digest = digest_of(br#"{"id": "j", "code": "pass", "idempotency_key": "k"}"#, u64::MAX);
        let text = r#"{"class":"normal","code":"pass","idempotency_key":"k","language":"python","limits":{},"max_attempts":1,"pool":"default","protocol":1}"#;
        assert_eq!(digest, hex::encode(Sha256::digest(text)));
    }
}
