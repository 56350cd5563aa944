//! A delivery from a work queue, parsed: the job, and what the scheduler's headers say about it.

use std::time::{Duration, SystemTime};

use thermae_backplane::bus::{Delivery, Headers, Message};
use thermae_backplane::record::Address;
use thermae_backplane::registry::{Epoch, JobKey};
use thermae_schemas::{Job, TenantName, names};
use thermae_service::trace::TraceContext;

use crate::clock::Moment;

/// A job that was handed to this worker.
#[derive(Debug)]
pub(crate) struct Work {
    /// Tenant and id of the job.
    pub key: JobKey,
    pub job: Job,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// How many times the job may be started.
    pub max_attempts: u32,
    /// The registry's epoch in which the job was assigned.
    pub epoch: Epoch,
    /// Whether no other copy of the message could exist when it arrived.
    pub only_copy: bool,
    /// Whether the job's session may be made on this worker.
    pub create_session: bool,
    /// The code must start before this moment. The header is converted once, when the delivery arrives, because the
    /// wall clock may be set later.
    pub deadline: Option<Moment>,
    /// Nothing is started from this message after this moment, because the job's record may be forgotten from then on.
    pub expires: Option<Moment>,
    /// Where the client that submitted the job gets its events; `None` if it wants none. If another client takes the
    /// run over, its [`crate::running::Entry`] says where they go.
    pub submitter: Option<Address>,
    /// Trace context of the message.
    pub trace: TraceContext,
    /// Size of the message in bytes, as an estimate of the work to compile its schemas; 0 if it has none.
    pub tool_bytes: usize,
}

/// A delivery that is not a job from a scheduler.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    /// A header is missing or has a wrong value.
    #[error("header {0} is missing or wrong")]
    Header(&'static str),
    /// The body is not a job.
    #[error("the body is not a job")]
    Body(#[from] serde_json::Error),
}

impl Work {
    /// Reads a delivery.
    ///
    /// # Errors
    /// The delivery did not come from a scheduler.
    pub(crate) fn read(delivery: &Delivery) -> Result<Self, Unreadable> {
        let Message { body, headers, reply_to, correlation_id, .. } = &*delivery.message;
        let number = |name| {
            let value = headers.int(name).and_then(|n| u32::try_from(n).ok());
            value.filter(|n| *n > 0).ok_or(Unreadable::Header(name))
        };
        let tenant = headers.text(names::H_TENANT).and_then(|t| TenantName::new(t).ok());
        let tenant = tenant.ok_or(Unreadable::Header(names::H_TENANT))?;
        let job = Job::from_json(body)?;
        let epoch = headers.text(names::H_EPOCH).ok_or(Unreadable::Header(names::H_EPOCH))?;
        Ok(Self {
            key: JobKey::new(tenant, job.id.clone()),
            attempt: number(names::H_ATTEMPT)?,
            max_attempts: number(names::H_MAX_ATTEMPTS)?,
            epoch: Epoch(epoch.to_owned()),
            only_copy: !delivery.redelivered && !headers.flag(names::H_MAYBE_DUPLICATE),
            create_session: headers.flag(names::H_SESSION_CREATE),
            deadline: moment(headers, names::H_DEADLINE),
            expires: moment(headers, names::H_EXPIRES),
            submitter: reply_to.clone().map(|reply_key| Address { reply_key, correlation_id: correlation_id.clone() }),
            trace: TraceContext {
                traceparent: headers.text(names::H_TRACEPARENT).map(str::to_owned),
                tracestate: headers.text(names::H_TRACESTATE).map(str::to_owned),
            },
            tool_bytes: if has_schemas(&job) { body.len() } else { 0 },
            job,
        })
    }

    /// Whether the deadline has passed.
    pub(crate) fn is_late(&self) -> bool {
        self.deadline.is_some_and(|at| at <= Moment::now())
    }

    /// Whether the message is so old that nothing may be started from it.
    pub(crate) fn is_expired(&self) -> bool {
        self.expires.is_some_and(|at| at <= Moment::now())
    }

    /// Time until the deadline; `None` if there is no deadline.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        self.deadline.map(Moment::left)
    }
}

/// Whether the job has JSON Schemas to compile.
fn has_schemas(job: &Job) -> bool {
    let capabilities = job.capabilities.iter().flat_map(|set| set.capabilities());
    job.tools.iter().any(|tool| tool.input_schema.is_some())
        // Whether the token's sets have schemas is not known yet.
        || job.token.is_some()
        || capabilities.into_iter().any(|one| one.arguments().is_some() || one.result().is_some())
}

fn moment(headers: &Headers, name: &str) -> Option<Moment> {
    let ms = u64::try_from(headers.int(name)?).ok()?;
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Some(Moment::now() + Duration::from_millis(ms).saturating_sub(since_epoch))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn delivery(job: &Job, deadline: Option<SystemTime>) -> Delivery {
        let mut headers = Headers::default();
        headers.set_text(names::H_TENANT, "acme");
        headers.set_text(names::H_EPOCH, "e");
        headers.set_int(names::H_ATTEMPT, 1);
        headers.set_int(names::H_MAX_ATTEMPTS, 1);
        if let Some(at) = deadline {
            let ms = at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
            headers.set_int(names::H_DEADLINE, i64::try_from(ms).unwrap());
        }
        let body = serde_json::to_vec(job).unwrap().into();
        Delivery::detached(Message { headers, body, ..Message::default() })
    }

    /// A job as a scheduler hands it out.
    pub(crate) fn work() -> Work {
        Work::read(&delivery(&Job::python(""), None)).unwrap()
    }

    #[test]
    fn a_deadline_is_kept() {
        let at = |seconds| SystemTime::now().checked_add(Duration::from_secs(seconds)).unwrap();
        let read = |deadline| Work::read(&delivery(&Job::python(""), deadline)).unwrap();
        let (past, ahead, none) = (read(Some(SystemTime::UNIX_EPOCH)), read(Some(at(60))), read(None));
        assert!(past.is_late() && past.time_left() == Some(Duration::ZERO));
        assert!(!ahead.is_late() && ahead.time_left().unwrap() > Duration::from_secs(50));
        assert!(!none.is_late() && none.time_left().is_none());
    }
}
