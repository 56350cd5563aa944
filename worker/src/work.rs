//! A delivery of a work queue, read: the job and what the scheduler's headers say of it.

use std::time::{Duration, SystemTime};

use thermae_backplane::bus::{Delivery, Headers, Message};
use thermae_backplane::registry::{Epoch, JobKey};
use thermae_schemas::{Job, TenantName, names};
use thermae_service::trace::TraceContext;

/// A job that was handed to this worker.
#[derive(Debug)]
pub(crate) struct Work {
    /// Its full name.
    pub key: JobKey,
    /// The job.
    pub job: Job,
    /// Number of the attempt.
    pub attempt: u32,
    /// How often it may be started.
    pub max_attempts: u32,
    /// The registry's epoch when it was assigned.
    pub epoch: Epoch,
    /// Whether no other copy of the message can exist.
    pub only_copy: bool,
    /// Whether its session may be made here.
    pub create_session: bool,
    /// It must start before.
    pub deadline: Option<SystemTime>,
    /// Key of its events.
    pub reply_to: Option<String>,
    /// The client's mark.
    pub correlation_id: Option<String>,
    /// Its place in its trace.
    pub trace: TraceContext,
    /// Names of its tools' arguments, in order.
    pub params: Vec<Vec<String>>,
}

/// A delivery that is no job of the scheduler's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    /// A header is missing, or is not what it should be.
    #[error("header {0} is missing or wrong")]
    Header(&'static str),
    /// The body is no job.
    #[error("the body is no job")]
    Body(#[from] serde_json::Error),
}

impl Work {
    /// Reads a delivery.
    ///
    /// # Errors
    /// It is none of the scheduler's.
    pub(crate) fn read(delivery: &Delivery) -> Result<Self, Unreadable> {
        let Message { body, headers, reply_to, correlation_id, .. } = &delivery.message;
        let number = |name| {
            let value = headers.int(name).and_then(|n| u32::try_from(n).ok());
            value.filter(|n| *n > 0).ok_or(Unreadable::Header(name))
        };
        let tenant = headers.text(names::H_TENANT).and_then(|t| TenantName::new(t).ok());
        let tenant = tenant.ok_or(Unreadable::Header(names::H_TENANT))?;
        let job: Job = serde_json::from_slice(body)?;
        let epoch = headers.text(names::H_EPOCH).ok_or(Unreadable::Header(names::H_EPOCH))?;
        Ok(Self {
            key: JobKey::new(tenant, job.id.clone()),
            attempt: number(names::H_ATTEMPT)?,
            max_attempts: number(names::H_MAX_ATTEMPTS)?,
            epoch: Epoch(epoch.to_owned()),
            only_copy: !delivery.redelivered && !headers.flag(names::H_MAYBE_DUPLICATE),
            create_session: headers.flag(names::H_SESSION_CREATE),
            deadline: deadline(headers),
            reply_to: reply_to.clone(),
            correlation_id: correlation_id.clone(),
            trace: TraceContext {
                traceparent: headers.text(names::H_TRACEPARENT).map(str::to_owned),
                tracestate: headers.text(names::H_TRACESTATE).map(str::to_owned),
            },
            params: if job.tools.is_empty() { Vec::new() } else { crate::tools::param_names(body) },
            job,
        })
    }

    /// Whether its deadline has passed.
    pub(crate) fn is_late(&self) -> bool {
        self.deadline.is_some_and(|at| at <= SystemTime::now())
    }

    /// Time until its deadline.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        self.deadline.map(|at| at.duration_since(SystemTime::now()).unwrap_or_default())
    }
}

fn deadline(headers: &Headers) -> Option<SystemTime> {
    let ms = u64::try_from(headers.int(names::H_DEADLINE)?).ok()?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_millis(ms))
}
